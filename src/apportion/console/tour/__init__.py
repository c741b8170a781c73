"""Tour: real keys, a small cluster, one change."""
