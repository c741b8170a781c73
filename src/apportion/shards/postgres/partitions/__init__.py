"""Partitions of timed tables in PostgreSQL: their names and bounds, and the acts that make, detach and drop them."""
