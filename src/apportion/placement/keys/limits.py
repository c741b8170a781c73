"""Limits: the longest key, and the most keys in one array; every reader of keys keeps to them."""

MAX_KEY_BYTES = 65_536
MAX_ROWS = 2**31 - 1
"""The most rows of an Arrow array, or items of a buffer. Arrow recommends this limit; one call should route fewer."""
