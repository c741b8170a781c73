"""Scatter: statements over all shards of a set."""
