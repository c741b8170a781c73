"""`apportion compare`: every placement side by side on your nodes and keys."""
