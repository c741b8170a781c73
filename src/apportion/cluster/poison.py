"""Poison: a partition that kills whoever serves it, and how it is told from those that were only there.

What two owners in a row have died of is suspect. A few suspects are tried by a member one after another, each until it
is proven. More are tried together: two machines that are lost within a minute leave hundreds, and as a rule none is to
blame. A death of several convicts nobody; each of them is tried next among a quarter as many. A death of one alone
convicts it: it gets no owner.

Promises: nothing is convicted but what its last owner died of while that tried no other suspect; who tries so many
together tries at no time more. A poison among n suspects of one member costs log4(n) deaths, rounded up, and one.
"""

from collections.abc import Iterable, Mapping

from apportion.cluster.records import MAX_PARTITIONS, QUARANTINE_DEATHS, Ownership

SUSPECT_DEATHS = QUARANTINE_DEATHS - 1
_FEW = 4


def deaths(record: Ownership, *, has_died: bool) -> int:
    """Return how many owners in a row died of a partition; the last, if it has died, where that tells something.

    >>> deaths(Ownership(owner="a", deaths=2, among=1), has_died=True)
    3
    >>> deaths(Ownership(owner="a", deaths=2, among=5), has_died=True)
    2
    """
    tells = record.deaths < SUSPECT_DEATHS or record.among <= 1
    return record.deaths + (has_died and tells)


def room(record: Ownership, *, has_died: bool) -> int:
    """Return among how many suspects, itself included, one may be tried next.

    >>> room(Ownership(owner="a", deaths=2, among=9), has_died=True)
    2
    """
    if record.deaths < SUSPECT_DEATHS:
        return MAX_PARTITIONS
    return max(1, record.among // _FEW if has_died else record.among)


def tried_next(tried: Iterable[int], rooms: Mapping[int, int]) -> dict[int, int]:
    """Return which of the suspects that wait may be tried now, as many as can be, and each among how many.

    `tried` says among how many each is tried that is tried already. O(n log n).

    >>> tried_next([], {3: 9, 4: 9, 5: 3, 6: 2, 7: 1})
    {3: 3, 4: 3, 5: 3}
    >>> tried_next([], {3: 9, 4: 9})
    {3: 1}
    """
    before = list(tried)
    if len(before) + len(rooms) <= _FEW:
        rooms = dict.fromkeys(rooms, 1)
    narrowest, taken = min(before, default=MAX_PARTITIONS), list[int]()
    for number, each in enumerate(sorted(rooms, key=lambda each: (-rooms[each], each)), len(before) + 1):
        if number > min(narrowest, rooms[each]):
            break
        taken.append(each)
    return dict.fromkeys(taken, len(before) + len(taken))
