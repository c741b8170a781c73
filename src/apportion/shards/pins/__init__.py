"""Pins: the slot of a pinned session as an SQL expression, and a router's counts of its sessions."""
