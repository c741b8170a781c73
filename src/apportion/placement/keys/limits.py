"""How long a key may be, and how many one array may hold: every reader of keys keeps to these."""

MAX_KEY_BYTES = 65_536
MAX_ROWS = 2**31 - 1
"""Rows of one Arrow array, or items of one buffer: what Arrow recommends, and more than one call should route."""
