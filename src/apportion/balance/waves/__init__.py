"""Waves: the order in which an assignment is changed, so that it is safe to stop at any moment."""
