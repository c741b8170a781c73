"""Cluster: who is there, who owns what right now, and the tables that clients route by."""
