"""Groups: members that share partitions of work, who owns which, and guards that refuse those who no longer do."""
