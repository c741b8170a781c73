"""`apportion shards`: the commands of an operator of shards."""
