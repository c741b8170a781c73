"""Notes: the resources that a guard of this process has checked; an owner of any other resource writes unguarded.

Promises: at most `MOST_NOTED` resources are remembered: the ones checked last. No call blocks or takes a lock, because
a finalizer may call, and a finalizer can interrupt any code. Refuses: to say which guard checked a resource, or to
answer for other processes.
"""

from typing import Final

from apportion.guards.rule import valid
from apportion.model.epoch import FencingToken

MOST_NOTED: Final = 2**17
_noted: dict[str, None] = {}


def note(token: FencingToken) -> None:
    """Note that a guard checks the token's resource; the guards that come with the library do so themselves."""
    resource = valid(token).resource
    _noted.pop(resource, None)
    _noted[resource] = None
    if len(_noted) > MOST_NOTED:  # `list` copies all notes, so each copy drops many of them
        for oldest in list(_noted)[: max(1, MOST_NOTED // 64)]:
            _noted.pop(oldest, None)


def checked(resource: str) -> bool:
    """Say whether a guard has checked a token of this resource, in this process."""
    return resource in _noted
