"""What Java computes."""
