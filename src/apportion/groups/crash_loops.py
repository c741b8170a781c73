"""Crash loops: after repeated deaths of its owners, a partition waits longer before each next owner (back-off).

An ownership record lists the last sessions that ended while they owned the partition, each within a minute of taking
it. A session does not count if its process is still alive, or has left the group. After the third death in a row the
next owner waits a second. Each further death doubles the wait, up to a minute. A minute of service clears the list; a
planned transfer keeps it.

Promises: no partition is without an owner for longer than a minute because of deaths, unless its group asked for
quarantine. A pause, a cut network or a node that leaves delays nothing.
Refuses: to store a time. Each member counts from the moment at which it saw the session gone.
Source: the back-off of containers in Kubernetes (CrashLoopBackOff), with a shorter first and last step.
"""

from collections.abc import Collection

from apportion.groups.view.records import KEPT_DEATHS
from apportion.groups.view.view import View

HEALTHY_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 60.0
_FREE_DEATHS = 3  # the third death in a row is the first that makes the next owner wait


def wait_seconds(deaths: int) -> float:
    """Return how long a partition waits for its next owner after this number of deaths in a row.

    >>> [wait_seconds(deaths) for deaths in (0, 2, 3, 4, 8, 9)]
    [0.0, 0.0, 1.0, 2.0, 32.0, 60.0]
    """
    return 0.0 if deaths < _FREE_DEATHS else min(2.0 ** (deaths - _FREE_DEATHS), LONGEST_WAIT_SECONDS)


def with_death(
    before: tuple[int, ...], session: int, *, lasted_seconds: float, lived: Collection[int]
) -> tuple[int, ...]:
    """Return the new list of sessions that ended in a row, after one more has ended, with `lasted_seconds` of service.

    `lived` are sessions of processes that live on. A session of a minute or more clears the list.

    >>> with_death((4,), 7, lasted_seconds=2.0, lived=())
    (4, 7)
    >>> with_death((4,), 7, lasted_seconds=2.0, lived={7}), with_death((4,), 7, lasted_seconds=60.0, lived=())
    ((4,), ())
    """
    if lasted_seconds >= HEALTHY_SECONDS:
        return ()
    return before if session in lived or session in before else (*before, session)[-KEPT_DEATHS:]


def ended(view: View, partition: int) -> tuple[int, ...]:
    """Return the sessions in a row that ended soon after they took a partition, the last one included."""
    owned = view.owned(partition)
    record = owned.ownership
    before = tuple(each for each in record.ended if each not in view.lived)
    if record.owner is None or view.is_live(record):
        return before
    lasted = view.gone_at(owned) - owned.since
    return with_death(before, record.session, lasted_seconds=lasted, lived=view.lived)


def next_try(view: View, partition: int) -> float:
    """Return when the next owner may take a partition after its owner is gone; infinity while in quarantine."""
    owned = view.owned(partition)
    if owned.ownership.owner is None or view.is_live(owned.ownership):
        return float("-inf")
    deaths = len(ended(view, partition))
    quarantine_after = view.settings.quarantine_after
    if quarantine_after is not None and deaths >= quarantine_after:
        return float("inf")
    return view.gone_at(owned) + wait_seconds(deaths)


def is_quarantined(view: View, partition: int) -> bool:
    """Whether a partition waits for `apportion group release`."""
    return next_try(view, partition) == float("inf")
