"""Damage: rows of tasks that no release writes, and their end, in each database."""
