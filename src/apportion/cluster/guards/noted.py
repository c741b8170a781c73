"""Which resources a guard of this process has checked: whoever owns one that is not among them writes unguarded.

Promises: at most `MOST_NOTED` resources are remembered, those checked last; it never blocks for more than a look-up.
Refuses: to tell one guard from another, or to speak for other processes.
"""

from threading import Lock
from typing import Final

from apportion.cluster.guards.rule import valid
from apportion.model.epoch import FencingToken

MOST_NOTED: Final = 2**17
_noted: dict[str, None] = {}
_lock = Lock()


def note(token: FencingToken) -> None:
    """Say that a guard checks the token's resource; the guards that come with the library do so themselves."""
    resource = valid(token).resource
    with _lock:
        _noted.pop(resource, None)
        _noted[resource] = None
        if len(_noted) > MOST_NOTED:
            del _noted[next(iter(_noted))]


def checked(resource: str) -> bool:
    """Say whether a guard has checked a token of this resource, in this process."""
    return resource in _noted
