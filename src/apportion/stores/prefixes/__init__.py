"""Several stores as one: each store keeps the groups and tables with names that begin alike."""
