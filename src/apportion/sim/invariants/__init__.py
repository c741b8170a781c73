"""Invariants: the conditions that must hold at every transition, whatever fails."""
