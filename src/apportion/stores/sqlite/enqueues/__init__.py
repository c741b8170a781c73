"""Enqueues: the new tasks of an SQLite file."""
