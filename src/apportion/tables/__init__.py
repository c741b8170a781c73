"""Published tables: a topology, table or assignment under a name in a store, and clients that follow it."""

from apportion.tables.facade import AsyncFollower
from apportion.tables.followed import FollowedTable
from apportion.tables.follower import Follower, following
from apportion.tables.publisher import Published, Publisher

__all__ = ["AsyncFollower", "FollowedTable", "Follower", "Published", "Publisher", "following"]
