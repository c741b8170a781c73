"""Tests of the load of a set."""
