"""Logical replication between two shards in PostgreSQL: the native channel of a move."""
