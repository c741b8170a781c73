"""Groups: processes that share partitions, one owner each, while members come and go."""
