"""Ranges: sets in which each slot has the keys of a range."""
