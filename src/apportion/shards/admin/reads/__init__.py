"""Reads: calls that read the rows of all shards, each shard in one transaction."""
