"""Shards of a world: databases in memory with transactions, and the ways of processes to them."""
