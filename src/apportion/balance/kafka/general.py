"""The sticky algorithm for members that want different topics: keep, give out to the least loaded, then even out.

Members keep the partitions that they own and still want. The rest is given out, topics with the fewest takers first,
each time to the least loaded member that wants the topic. Then a partition moves while its owner holds at least two
more than another member that wants it. A moved partition goes back to an older owner, else to the least loaded
member.

Promises: Java's result, except where this result cannot be used. Java may move a partition back to an older owner
that does not want its topic any more. If such a partition is left at the end, this algorithm begins again without such
moves. At the end, no direct move of one partition to another member makes loads more even.
Refuses: the optimum. Chains of moves may come nearer to it, and `kafka.optimal` finds it.
O(partitions · members) at worst for each round of moves, of which there are few.
Source: `AbstractStickyAssignor` of Kafka 4.1. Three of its steps are left out. First, Java asks for racks while it
evens out, which never changes the moves. Second, Java undoes all moves if nothing became more even. Third, Java stops
once no partition can go to a member that wants it and has at least two fewer than the owner. This algorithm may still
move a partition to an older owner that does not want it, and then begins again. The last two steps never changed an
answer in thousands of random groups.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace

from apportion.balance.kafka.claims import NOBODY, Claims, older_claims
from apportion.balance.kafka.group import CheckedGroup
from apportion.balance.kafka.moves import Moves
from apportion.balance.kafka.nearby import Nearby


def even_out(group: CheckedGroup, claims: Claims, nearby: Nearby | None) -> tuple[list[int], ...]:
    """Return the partitions of each member in a group where members want different topics."""
    older = older_claims(group)
    evening = _evened(group, claims, nearby, older)
    wanted = {index: place for index, place in older.items() if evening.wants(place, index)}
    if len(wanted) < len(older) and not all(map(evening.wants, evening.owners, range(group.layout.total))):
        evening = _evened(group, claims, nearby, wanted)
    rows: tuple[list[int], ...] = tuple([] for _ in group.members)
    for index, place in enumerate(evening.owners):
        rows[place].append(index)
    return rows


def _evened(group: CheckedGroup, claims: Claims, nearby: Nearby | None, older: Mapping[int, int]) -> "_Evening":
    evening = _Evening(group, nearby)
    evening.keep(claims)
    evening.assign()
    evening.move(older)
    return evening


class _Evening:
    """The state of the algorithm: the owner of each partition, and the load of each member."""

    def __init__(self, group: CheckedGroup, nearby: Nearby | None) -> None:
        layout = group.layout
        self.group, self.nearby = group, nearby
        self.owners = [NOBODY] * layout.total
        self.sizes = [0] * len(group.members)
        wanting = group.takers(group.by_id)
        # Topics wanted by the same members are of one kind: thousands of topics often have few kinds.
        kinds: dict[tuple[int, ...], int] = {}
        self.kind_of = [kinds.setdefault(takers, len(kinds)) for takers in wanting]
        self.takers = list(kinds)
        self._is_taker = list(map(frozenset, kinds))
        self.topic_of = [number for number, count in enumerate(layout.counts.values()) for _ in range(count)]
        # Sorting is stable, and topics are in their order already.
        order = sorted(range(len(wanting)), key=lambda number: len(wanting[number]))
        self.order = [index for number in order for index in layout.span(layout.topics[number])]
        self.unassigned: list[int] = []
        self.has_revoked = False

    def keep(self, claims: Claims) -> None:
        """Let every member keep the partitions that it owns, wants, and has nearby."""
        for place, owned in enumerate(claims.owned):
            for index in owned:
                is_near = self.nearby is None or self.nearby.is_near(place, index)
                if is_near and self.wants(place, index):
                    self.owners[index] = place
                    self.sizes[place] += 1
                else:
                    self.has_revoked = True
        self.unassigned = [index for index in self.order if self.owners[index] == NOBODY]

    def wants(self, place: int, index: int) -> bool:
        """Whether a member wants the topic of a partition."""
        return place in self._is_taker[self.kind_of[self.topic_of[index]]]

    def takers_of(self, index: int) -> tuple[int, ...]:
        """Return the members that want the topic of a partition, sorted by id."""
        return self.takers[self.kind_of[self.topic_of[index]]]

    def assign(self) -> None:
        """Give every partition without an owner to the least loaded member, of those nearby if there are any."""
        if (nearby := self.nearby) is not None:
            for index in self.unassigned:
                near = [place for place in self.takers_of(index) if nearby.is_near(place, index)]
                if near:
                    self._give(index, self.least(near))
        heaps: dict[int, list[tuple[int, int, int]]] = {}
        for index in self.unassigned:
            if self.owners[index] != NOBODY:
                continue
            kind = self.kind_of[self.topic_of[index]]
            if kind not in heaps:
                heaps[kind] = self._loads(self.takers[kind])
            self._give(index, self._least_of(heaps[kind]))

    def _give(self, index: int, place: int) -> None:
        self.owners[index] = place
        self.sizes[place] += 1

    def _loads(self, places: Iterable[int]) -> list[tuple[int, int, int]]:
        loads = [(self.sizes[place], self.group.ranks[place], place) for place in places]
        heapify(loads)
        return loads

    def _least_of(self, loads: list[tuple[int, int, int]]) -> int:
        """Return the least loaded member in a heap. Entries may be out of date: loads have only grown since."""
        while loads[0][0] != self.sizes[loads[0][2]]:
            _, rank, place = loads[0]
            heapreplace(loads, (self.sizes[place], rank, place))
        return loads[0][2]

    def least(self, places: Sequence[int]) -> int:
        """Return the least loaded of members that are sorted by id."""
        return min(places, key=self.sizes.__getitem__)

    def move(self, older: Mapping[int, int]) -> None:
        """Move partitions until none can go to a member with two fewer.

        If every member kept all that it owned, the partitions that had no owner come first.
        """
        moving = _Moving(self, older)
        if not self.has_revoked:
            moving.until_settled(self.unassigned)
        moving.until_settled(self.order)


class _Moving:
    """Moves of partitions from members with more to members with less."""

    def __init__(self, evening: _Evening, older: Mapping[int, int]) -> None:
        self._evening = evening
        self._older = older
        self._moves = Moves(evening.group.layout)
        self._least: dict[int, int] = {}

    def until_settled(self, indexes: Iterable[int]) -> None:
        """Go through these partitions again and again until none can be moved."""
        evening = self._evening
        movable = [index for index in indexes if len(evening.takers_of(index)) > 1]
        while sum(map(self._moved, movable)):
            pass

    def _moved(self, index: int) -> bool:
        """Move a partition, or another one in its place, if the move helps; return whether it helps."""
        evening, sizes = self._evening, self._evening.sizes
        owner = evening.owners[index]
        older = self._older.get(index, NOBODY)
        if older != NOBODY and sizes[owner] > sizes[older] + 1:
            self._move(index, older)
            return True
        least = self._least_loaded(evening.kind_of[evening.topic_of[index]])
        if sizes[owner] <= sizes[least] + 1:
            return False
        self._move(index, least)
        return True

    def _least_loaded(self, kind: int) -> int:
        """Return the least loaded member that wants topics of a kind, remembered until the next move."""
        if kind not in self._least:
            self._least[kind] = self._evening.least(self._evening.takers[kind])
        return self._least[kind]

    def _move(self, index: int, taker: int) -> None:
        evening = self._evening
        moved = self._moves.stand_in(evening.topic_of[index], index, evening.owners[index], taker)
        giver = evening.owners[moved]
        self._moves.note(evening.topic_of[moved], moved, giver, taker)
        evening.owners[moved] = taker
        evening.sizes[giver] -= 1
        evening.sizes[taker] += 1
        self._least.clear()
