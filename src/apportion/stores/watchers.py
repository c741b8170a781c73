"""Watchers: the watches of all handles of a process in one store. Each watch waits for changes in its own range.

One look at the store serves all watches. It finds the changed keys, and wakes only the watches of these keys, which
then read. Promises: a watch that takes its event before it reads misses no change that is reported afterwards.
"""

import asyncio
from collections.abc import Iterable


class Watcher:
    """One watch, of the keys in [start, end)."""

    def __init__(self, start: bytes, end: bytes) -> None:
        self._start, self._end = start, end
        self._changed = asyncio.Event()

    def next_change(self) -> asyncio.Event:
        """Return the event of the next change. Take it before you read, and then wait for it."""
        if self._changed.is_set():
            self._changed = asyncio.Event()
        return self._changed

    def wake(self) -> None:
        """Wake the watch, so that it reads."""
        self._changed.set()

    def covers(self, keys: Iterable[bytes]) -> bool:
        """Whether one of these keys is watched."""
        return any(self._start <= key < self._end for key in keys)


class Watchers:
    """All watches of one store."""

    def __init__(self) -> None:
        self._all: set[Watcher] = set()

    @property
    def is_empty(self) -> bool:
        """Whether there is no watch."""
        return not self._all

    def join(self, start: bytes, end: bytes) -> Watcher:
        """Return one more watch."""
        watcher = Watcher(start, end)
        self._all.add(watcher)
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Forget a watch."""
        self._all.discard(watcher)

    def wake(self, keys: Iterable[bytes] | None = None) -> None:
        """Wake the watches of these keys; without keys, wake all. O(watches)."""
        told = None if keys is None else tuple(keys)
        for watcher in self._all:
            if told is None or watcher.covers(told):
                watcher.wake()
