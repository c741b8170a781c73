"""Lanes of keyed tasks: the partitions of the keys of a queue, and the tokens of their owners."""
