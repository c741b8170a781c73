"""Published tables: a topology, table or assignment under a name in a store, and clients that follow it."""

from apportion.tables.facade import AsyncFollower, SyncFollower
from apportion.tables.publisher import Published

__all__ = ["AsyncFollower", "Published", "SyncFollower"]
