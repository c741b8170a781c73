"""Drop-in assignors for Python's Kafka clients, a file each; none imports its client."""
