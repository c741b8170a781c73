"""Demonstrations: processes that share work, and join, leave, die and sleep."""
