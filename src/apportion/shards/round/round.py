"""Round: a turn for each shard of a set, with the slots that no earlier turn had.

A turn reads one shard in one transaction. The slot rows in that transaction tell which slots the shard answers for. If
a slot moves to a shard after the turn of that shard, the shard has a further turn. So the round ends when each slot of
the table has had a turn.

Promises: each slot has one turn, also while slots move. A turn sees all rows of its slots as they were at one moment.
Refuses: to end without a slot. `StaleRoute` names one that no shard answered for. In a set by ranges, it also names a
slot that came or went meanwhile, because rows then changed their slots.
"""

from collections import deque
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from time import monotonic

from sqlalchemy.exc import DBAPIError

from apportion.errors import ApportionError, InvalidInput, StaleRoute, Unavailable
from apportion.shards.forms import Gathering
from apportion.shards.pin import SWITCH_SECONDS, NotAccepted, Roads
from apportion.shards.round.turn import RoundTurn
from apportion.shards.scatter.colocation import SetTables
from apportion.shards.scatter.known_shards import KnownShards
from apportion.shards.scatter.reads import ShardRead
from apportion.shards.slot_rows import SlotState, owners_of
from apportion.shards.slots import SlotTable

_LOOK_SECONDS = 0.05
_OPEN = ("fenced", "incoming")
"""The states of a slot that is on its way: the shard answers for it or not, as the other shards say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A round of one router. `gathering` opens a way to make calls at the same time."""

    roads: Roads
    known: KnownShards
    tables: SetTables
    gathering: Gathering

    def turns(self, *, parallel: int = 1, most: int | None = None) -> Generator[RoundTurn, None, None]:
        """Yield the turns. Each one ends before the next one. Closing the iterator ends all transactions.

        - `parallel`: the transactions that begin together. Those of later turns wait.
        - `most`: the most slots of a turn. A shard with more slots has several turns.
        """
        seen: dict[int, str] = {}
        first, until = self.roads.table, monotonic() + SWITCH_SECONDS
        while True:
            before = len(seen)
            yield from self._turns(first, seen, parallel, most)
            table = self.roads.table
            _check_ranges(first, table, first.owners.keys() ^ table.owners.keys())
            missing = table.owners.keys() - seen
            if not missing:
                return
            if len(seen) > before:
                until = monotonic() + SWITCH_SECONDS
            elif monotonic() > until:
                slot = min(missing)
                raise StaleRoute(f"slot {slot}", f"{table.owners[slot]}", table.version)
            with suppress(Unavailable):
                self.roads.refreshed(table.version, _LOOK_SECONDS)

    def _turns(
        self, first: SlotTable, seen: dict[int, str], parallel: int, most: int | None
    ) -> Generator[RoundTurn, None, None]:
        """Yield a turn for each shard with slots that are not `seen`, and add them there."""
        waiting = deque(self.known.ids(self.roads.table))
        while waiting:
            with ExitStack() as stack:
                reads = self._begun([waiting.popleft() for _ in range(min(parallel, len(waiting)))], stack)
                answers = self._answers(reads, seen)
                for read in reads:
                    here = {slot for slot, state in read.states.items() if state != "moved"}
                    gone = {slot for slot, shard in seen.items() if shard == read.shard} - read.states.keys()
                    _check_ranges(first, first, (here - first.owners.keys()) | gone)
                    left = sorted(answers[read.shard] - seen.keys())
                    slots = tuple(left[:most])
                    seen.update(dict.fromkeys(slots, read.shard))
                    if slots:
                        yield RoundTurn(read=read, roads=self.roads, slots=slots, tables=self.tables)
                    read.end()
                    if len(slots) < len(left):
                        waiting.appendleft(read.shard)

    def _begun(self, shards: Sequence[str], stack: ExitStack) -> list[ShardRead]:
        """Begin to read shards. Leave out those that have left the set."""
        reads = [ShardRead(shard, self.roads.engine) for shard in shards]
        for read in reads:
            stack.callback(read.end)
        with self.gathering() as gather:
            errors = gather([read.begin for read in reads])
        for error in filter(None, errors):
            may_have_left = isinstance(error, NotAccepted | ApportionError | DBAPIError)
            if not (may_have_left and self.known.has_changed()):
                raise error
        begun = [read for read, error in zip(reads, errors, strict=True) if error is None]
        for read in begun:
            self.roads.lent(read.connection)
        return begun

    def _answers(self, reads: Sequence[ShardRead], seen: Collection[int]) -> Mapping[str, set[int]]:
        """Return the slots that each shard answers for."""
        states = {read.shard: read.states for read in reads}
        if any(state in _OPEN for each in states.values() for slot, state in each.items() if slot not in seen):
            others = self._states_of_others(states)
            if others is not None:
                owners = owners_of({**others, **states})
                return {shard: {slot for slot in each if owners[slot] == shard} for shard, each in states.items()}
        return {shard: {slot for slot, state in each.items() if state == "owner"} for shard, each in states.items()}

    def _states_of_others(
        self, states: Mapping[str, Mapping[int, SlotState]]
    ) -> dict[str, Mapping[int, SlotState]] | None:
        """Return the slot rows of all other shards. None if a shard left meanwhile: it may have been the owner."""
        self.known.has_changed()
        others = [shard for shard in self.known.ids(self.roads.table) if shard not in states]
        with ExitStack() as stack:
            begun = self._begun(others, stack)
            return {read.shard: read.states for read in begun} if len(begun) == len(others) else None


def _check_ranges(first: SlotTable, table: SlotTable, changed: Collection[int]) -> None:
    """Raise `StaleRoute` if slots of a set by ranges came or went since its table at the begin of the round."""
    if first.ranges is not None and (changed or table.ranges != first.ranges):
        slot = min(changed, default=0)
        raise StaleRoute(f"slot {slot}", table.owners.get(slot) or "another range", table.version)


def check_round(*, read_only: bool, parallel: int) -> None:
    """Refuse a round that would write, and a wrong number of transactions."""
    if read_only is not True:
        hint = "Write in sessions of the keys: for key in router.keys(Model): router.run(key, work)."
        raise InvalidInput("read_only", read_only, "True, because a lock of all slots would stop each move", hint)
    if type(parallel) is not int or parallel < 1:
        raise InvalidInput("parallel", parallel, "an int of at least 1", "Leave it out to get 1.")
