"""Files that commands read and write: topologies, keys, partitions, saved tables, and the output of clusters."""
