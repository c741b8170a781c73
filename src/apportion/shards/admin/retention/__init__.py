"""Retention of a set: the call that makes new partitions and drops old ones, and its run on each shard."""
