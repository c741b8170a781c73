"""How a process runs: its clock, its I/O thread, what it opens and closes, signals, and calls of handlers."""
