"""Nearby: the members that read a partition from their own rack."""

from collections import Counter
from collections.abc import Sequence

from apportion.balance.kafka.group import CheckedGroup, is_rack_aware


class Nearby:
    """The racks of a group, where they matter.

    A member without a rack is near to every partition that it owns, but `next_near` never finds it.
    """

    def __init__(self, group: CheckedGroup, racks: Sequence[frozenset[str]]) -> None:
        self._member_racks = tuple(member.rack for member in group.members)
        self._racks = racks
        self._readers = Counter(filter(None, self._member_racks))

    @classmethod
    def of(cls, group: CheckedGroup) -> "Nearby | None":
        """Return the racks of a group, None where they cannot matter."""
        wanted = {member.rack for member in group.members if member.rack}
        if group.racks is None or not is_rack_aware(wanted, group.racks):
            return None
        return cls(group, group.racks)

    def is_near(self, place: int, index: int) -> bool:
        """Whether a partition lies in the rack of a member, or the member has none."""
        rack = self._member_racks[place]
        return rack is None or rack in self._racks[index]

    def readers(self, index: int) -> int:
        """Return the number of members in the racks of a partition."""
        return sum(self._readers[rack] for rack in self._racks[index])

    def next_near(self, index: int, places: Sequence[int], start: int) -> int | None:
        """Return the position in `places` of the next member in a rack of a partition, going around from `start`.

        O(members), mostly O(racks).
        """
        racks = self._racks[index]
        if not racks:
            return None
        for turn in range(start, start + len(places)):
            found = turn if turn < len(places) else turn - len(places)
            if self._member_racks[places[found]] in racks:
                return found
        return None
