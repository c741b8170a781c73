"""Rounds over all shards of a set: a job reads each slot once, and no shard is left out."""
