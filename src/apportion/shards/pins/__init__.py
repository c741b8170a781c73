"""Pins: the parts of pinned sessions that no other part of the room shares."""
