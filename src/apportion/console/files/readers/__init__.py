"""Readers: what other systems print of themselves, as topologies and assignments."""
