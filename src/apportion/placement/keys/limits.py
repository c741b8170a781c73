"""Limits: the longest key, and the most keys in one array; every reader of keys keeps to them."""

MAX_KEY_BYTES = 65_536
MAX_ROWS = 2**31 - 1
"""Rows of one Arrow array, or items of one buffer: the recommendation of Arrow, and more than one call should route."""
