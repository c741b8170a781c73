"""Scenarios: the plays of a world: members of a store, groups, and damaged records."""
