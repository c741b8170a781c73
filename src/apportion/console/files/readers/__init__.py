"""Readers: the printed state of other systems, as topologies and assignments."""
