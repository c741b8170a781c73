"""The SQLite node: a copy of the entries of maps in one file, on a local disk."""
