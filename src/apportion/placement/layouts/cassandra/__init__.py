"""Cassandra's ring, its tokens, and its replication strategies."""

from apportion.placement.layouts.cassandra.ring import HASHER, Cassandra, replicas_of
from apportion.placement.layouts.cassandra.strategies import NetworkTopologyStrategy, SimpleStrategy
from apportion.placement.layouts.cassandra.tokens import token

__all__ = ["HASHER", "Cassandra", "NetworkTopologyStrategy", "SimpleStrategy", "replicas_of", "token"]
