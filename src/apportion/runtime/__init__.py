"""The run of a process: its clock, its I/O thread, the resources that it opens, signals, and calls of handlers."""
