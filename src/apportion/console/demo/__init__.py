"""The demonstration: real keys, a small cluster, one change."""
