"""What Java computes, where the answers of programs written in it follow from that: Helix's, Kafka's."""
