"""The sticky algorithm for members that want the same topics: all keep their part, the rest is dealt out in turns.

Each member gets the floor or the ceiling of the fair share; the number of ceilings is given. Members keep their
partitions up to that share. A member that owns more than the floor keeps the ceiling, while ceilings are left. Then
the remaining partitions go around, by topic and number: first to members below the floor, then to members at the
floor.

With racks, a member first releases its partitions in other racks. The remaining partitions first go around among
members in their racks; partitions with few nearby readers come first.

Promises: Java's result; loads differ by one at most; without racks, no other result with such loads moves fewer
partitions.
O(partitions), and with racks O(partitions · members) at worst.
Source: `AbstractStickyAssignor` of Kafka 4.1 (KIP-54, KIP-429, KIP-881).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress

from apportion.balance.kafka.claims import Claims
from apportion.balance.kafka.group import CheckedGroup
from apportion.balance.kafka.nearby import Nearby


@dataclass(frozen=True, slots=True, kw_only=True)
class Dealt:
    """The partitions of each member, and index -> place of the new owner (`transfers`) and the old one (`let_go`)."""

    rows: tuple[list[int], ...]
    transfers: dict[int, int]
    let_go: dict[int, int]


def deal(group: CheckedGroup, claims: Claims, nearby: Nearby | None) -> Dealt:
    """Return the partitions of each member in a group where all members want the same topics."""
    dealing = _Dealing(group, claims, nearby)
    dealing.keep()
    left = dealing.left()
    if nearby is not None:
        left = dealing.deal_nearby(left, nearby)
    dealing.deal(left)
    return Dealt(rows=dealing.rows, transfers=dealing.transfers, let_go=dealing.let_go)


class _Dealing:
    """The state while partitions are dealt out.

    `below` are the members under the floor. `at` are the members at the floor that may get one more partition.
    """

    def __init__(self, group: CheckedGroup, claims: Claims, nearby: Nearby | None) -> None:
        self.group, self.claims, self.nearby = group, claims, nearby
        self.floor, self.extra = divmod(group.layout.total, len(group.members))
        self.ceiling = self.floor + (self.extra > 0)
        self.rows: tuple[list[int], ...] = tuple([] for _ in group.members)
        self.below: list[int] = []
        self.at: list[int] = []
        self.let_go: dict[int, int] = {}
        self.transfers: dict[int, int] = {}

    def keep(self) -> None:
        """Let every member keep the partitions that it may keep."""
        preference: list[int] | None = None
        for place, owned in enumerate(self.claims.owned):
            mine = self._kept(place, owned)
            if len(mine) < self.floor:
                self.below.append(place)
                self.rows[place].extend(mine)
                continue
            most = self.ceiling if len(mine) >= self.ceiling and self.extra else self.floor
            if most > self.floor:
                self._take_extra()
            elif self.extra:
                self.at.append(place)
            if len(mine) > most:
                preference = preference or self._preference()
                mine.sort(key=preference.__getitem__)
                self.let_go.update(dict.fromkeys(mine[most:], place))
            self.rows[place].extend(mine[:most])
        self.below.sort(key=self.group.ranks.__getitem__)
        self.at.sort(key=self.group.ranks.__getitem__)

    def _kept(self, place: int, owned: Sequence[int]) -> list[int]:
        if self.nearby is not None:
            away = [index for index in owned if not self.nearby.is_near(place, index)]
            self.let_go.update(dict.fromkeys(away, place))
            owned = [index for index in owned if self.nearby.is_near(place, index)]
        contested = self.claims.contested
        return [index for index in owned if index not in contested] if contested else list(owned)

    def _preference(self) -> list[int]:
        """Return a key per partition: low numbers are kept first, then partitions of the first topics."""
        counts = self.group.layout.counts.values()
        width = len(counts)
        return [number * width + topic for topic, count in enumerate(counts) for number in range(count)]

    def _take_extra(self) -> None:
        self.extra -= 1
        if not self.extra:
            self.at.clear()

    def left(self) -> list[int]:
        """Return the partitions that no member kept, ascending."""
        is_left = bytearray(b"\x01") * self.group.layout.total
        for row in self.rows:
            for index in row:
                is_left[index] = 0
        return list(compress(range(len(is_left)), is_left))

    def deal_nearby(self, left: Iterable[int], nearby: Nearby) -> list[int]:
        """Deal partitions to members in their racks, those with few nearby readers first; return the rest."""
        rest, turn = [], 0
        for index in sorted(left, key=nearby.readers):
            found = nearby.next_near(index, self.below, turn)
            if found is not None:
                place = self.below[found]
                turn = self._fill_below(place, found)
            elif (found := nearby.next_near(index, self.at, 0)) is not None:
                place = self.at.pop(found)
                self._take_extra()
            else:
                rest.append(index)
                continue
            self._give(index, place)
        return rest

    def _fill_below(self, place: int, found: int) -> int:
        """Count one more for a member below the floor; return the next turn."""
        following = found + 1
        if len(self.rows[place]) + 1 >= self.floor:
            del self.below[found]
            following = found
            if self.extra:
                self.at.append(place)
        return following % len(self.below) if self.below else 0

    def deal(self, left: Sequence[int]) -> None:
        """Deal out the rest in turns. All members still below get one per turn, so several turns are taken together."""
        start, below = 0, self.below
        while below:
            turns = min(self.floor - len(self.rows[place]) for place in below)
            end = start + turns * len(below)
            for offset, place in enumerate(below):
                self._give_all(left[start + offset : end : len(below)], place)
            start = end
            self.at += [place for place in below if len(self.rows[place]) == self.floor]
            below = [place for place in below if len(self.rows[place]) < self.floor]
        for index, place in zip(left[start:], self.at, strict=False):
            self._give(index, place)

    def _give(self, index: int, place: int) -> None:
        self._give_all((index,), place)

    def _give_all(self, indexes: Sequence[int], place: int) -> None:
        self.rows[place].extend(indexes)
        if self.let_go or self.claims.contested:
            contested, let_go = self.claims.contested, self.let_go
            for index in indexes:
                if index in contested or let_go.get(index, place) != place:
                    self.transfers[index] = place
