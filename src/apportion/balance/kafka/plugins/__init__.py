"""Drop-in assignors for Python's Kafka clients, one file per client; no file imports its client."""
