"""Keys: how one is read as bytes, and in which containers many may come."""
