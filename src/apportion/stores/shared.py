"""Shared: objects that the handles of one process share in one store, such as connections and a reaper.

Promises: one object per process, event loop and key, for as long as it has users. A forked child neither shares nor
frees an object of its parent. Refuses: to open or to close an object; the last user closes it.
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
    """The shared objects of one kind. No call waits, so no cancellation can come between counting and using."""

    def __init__(self) -> None:
        self._uses: dict[_Key, _Use[Thing]] = {}

    def take(self, key: Hashable, make: Callable[[], Thing]) -> Thing:
        """Return the object of a key in the running loop, with one more user. `make` makes it for the first user."""
        for each in [each for each in self._uses if each[0] == os.getpid() and each[1].is_closed()]:
            del self._uses[each]  # its loop ended with open handles
        use = self._uses.get(_here(key))
        if use is None:
            use = self._uses[_here(key)] = _Use(make())
        use.users += 1
        return use.thing

    def give_back(self, key: Hashable) -> bool:
        """Count one user fewer; return whether that was the last one. The last user then closes the object."""
        use = self._uses[_here(key)]
        use.users -= 1
        if use.users == 0:
            del self._uses[_here(key)]
        return use.users == 0


def _here(key: Hashable) -> _Key:
    return os.getpid(), asyncio.get_running_loop(), key
