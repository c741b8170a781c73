"""The migration of a set: its call, and the run of the elected mover."""
