"""The sync twin of every async call, under the same name, for programs without an event loop.

An async façade and its sync twin contain little code: the one I/O thread of the process does the work. No loop runs in
the caller's thread. `python -m generate` makes the files of this room from their async twins.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from apportion.sync.current import SyncRunningTask, current_task
from apportion.sync.groups import SyncGroup, open_group
from apportion.sync.leader import SyncElection, leader
from apportion.sync.stores import SyncStore, open_store
from apportion.sync.tables import SyncFollower, follow, publish
from apportion.sync.tasks import SyncQueue as Queue
from apportion.sync.tasks import SyncTaskHandle

if TYPE_CHECKING:  # loaded at their first use, because they need SQLAlchemy
    from apportion.sync.replicas import open_map
    from apportion.sync.shards import open_shards

__all__ = [
    "Queue",
    "SyncElection",
    "SyncFollower",
    "SyncGroup",
    "SyncRunningTask",
    "SyncStore",
    "SyncTaskHandle",
    "current_task",
    "follow",
    "leader",
    "open_group",
    "open_map",
    "open_shards",
    "open_store",
    "publish",
]


def __getattr__(name: str) -> object:
    if name == "replicas":
        return import_module("apportion.sync.replicas")
    if name not in _LAZY:
        raise AttributeError(f"module 'apportion.sync' has no attribute {name!r}")
    value: object = getattr(import_module(_LAZY[name]), name)
    return value


_LAZY = {"open_map": "apportion.sync.replicas", "open_shards": "apportion.sync.shards"}
