"""Nodes of a map: the protocol `ReplicaNode`, and a folder or file for each kind of store that keeps entries."""
