"""Shared: objects that the handles of one process share in one store, such as connections and a reaper.

Promises: one thing per process, event loop and key, for as long as it has users. A forked child shares nothing with
its parent, and frees nothing of it. Refuses: to open or to close anything; the last user closes the thing.
"""

import asyncio
import os
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

Thing = TypeVar("Thing")
_Key = tuple[int, asyncio.AbstractEventLoop, Hashable]


@dataclass(slots=True)
class _Use(Generic[Thing]):
    thing: Thing
    users: int = 0


class Shared(Generic[Thing]):
    """The things of one kind. No call waits, so no cancellation can come between counting and using."""

    def __init__(self) -> None:
        self._uses: dict[_Key, _Use[Thing]] = {}

    def take(self, key: Hashable, make: Callable[[], Thing]) -> Thing:
        """Count one more user of the thing of a key in the running loop. The first user makes the thing."""
        for each in [each for each in self._uses if each[0] == os.getpid() and each[1].is_closed()]:
            del self._uses[each]  # it belonged to a loop that ended with open handles
        use = self._uses.get(_here(key))
        if use is None:
            use = self._uses[_here(key)] = _Use(make())
        use.users += 1
        return use.thing

    def give_back(self, key: Hashable) -> bool:
        """Count one user less; return whether that was the last user. The last user then closes the thing."""
        use = self._uses[_here(key)]
        use.users -= 1
        if use.users == 0:
            del self._uses[_here(key)]
        return use.users == 0


def _here(key: Hashable) -> _Key:
    return os.getpid(), asyncio.get_running_loop(), key
