"""Planners of ranges: splits, merges, moves."""
