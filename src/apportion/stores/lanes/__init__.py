"""Lanes of keyed tasks: the partitions of the keys of a queue, as values, rules and rows."""
