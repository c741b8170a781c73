"""Claims: the ready tasks of an SQLite file that a turn claims."""
