"""Rigs of the stores that come with the library: a file each, which ends in a `RIG`."""
