"""Sim: a seeded world with virtual time and faults, and the suites that stores are certified with."""
