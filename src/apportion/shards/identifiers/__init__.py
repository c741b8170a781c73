"""Identifiers of rows: UUIDs that carry the time and the slot."""
