"""The tour: real keys, a small cluster, one change."""
