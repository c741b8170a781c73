"""Shapes of placements: a table of boundaries, a circle of tokens, a function of the key; each algorithm has one."""
