"""Scenarios: what is played in a world: members of a store, groups, and damaged records."""
