"""Sync: a twin of every async call under the same name, for programs without an event loop.

Both are thin façades over the one I/O thread of the process. No loop runs inside the caller's thread.
"""

from apportion.groups.facade import SyncGroup
from apportion.groups.facade import open_group_sync as open_group
from apportion.groups.leader import SyncElection
from apportion.groups.leader import leader_sync as leader
from apportion.stores.facade import SyncStore
from apportion.stores.facade import open_store_sync as open_store
from apportion.tables.facade import SyncFollower
from apportion.tables.facade import follow_sync as follow
from apportion.tables.facade import publish_sync as publish

__all__ = [
    "SyncElection",
    "SyncFollower",
    "SyncGroup",
    "SyncStore",
    "follow",
    "leader",
    "open_group",
    "open_store",
    "publish",
]
