"""The demonstration of groups: processes that share partitions, and join, leave, die and sleep."""
