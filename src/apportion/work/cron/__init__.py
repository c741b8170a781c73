"""Schedules of a queue: their slots, their firing, and the acts on them."""
