"""Damage: rows of tasks that no release writes, and the statements that put them aside, for each database."""
