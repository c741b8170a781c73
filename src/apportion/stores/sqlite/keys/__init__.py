"""The questions about the keys of tasks in an SQLite file."""
