"""Published tables: a topology, table or assignment under a name in a store, and clients that follow it."""

from apportion.tables.facade import AsyncFollower, SyncFollower
from apportion.tables.follower import Follower, following
from apportion.tables.publisher import Published, Publisher

__all__ = ["AsyncFollower", "Follower", "Published", "Publisher", "SyncFollower", "following"]
