"""Invariants: what must hold at every transition, whatever fails."""
