"""Fail-over by an operator: lets a shard serve on the timeline that its server has now.

    moves     the moves of the shard that have not switched are taken back, by their records
    losing    its rows of slots that lie elsewhere become `moved`, and refuse
    winning   then its rows of its own slots become `owner`, under the number of the newest table
    note      one commit notes the timeline, and compares the table and the list of moves; from then on, routers go on
    end       the moves of the shard are ended, as any mover does

Promises: the newest table decides. No router writes to the shard before its rows are right. The same call again resumes
a call that was cut off.
Refuses: slots that moved to this shard if its server does not know the move, unless the caller accepts the loss of
rows.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from apportion.errors import ApportionError, Conflict, InvalidInput, StoreUnavailable, UnknownOption
from apportion.errors.brief import brief
from apportion.runtime.clock import SystemClock
from apportion.runtime.io_thread import io_thread
from apportion.shards.admin.carrier import Carrier, carried, check_records
from apportion.shards.admin.timelines import state_of_server
from apportion.shards.move_group import MOST_SLOTS, MoveGroup, RowChange
from apportion.shards.mover.book import KeptMove, KnownMoves, MoveBook
from apportion.shards.mover.failover import KeptShard, copied_to, moves_at, record_of
from apportion.shards.mover.records import slot_of_pin
from apportion.shards.records import SetKeys
from apportion.shards.reshard import BEFORE_SWITCH
from apportion.shards.router import FollowedSet, set_followed, set_left
from apportion.shards.slots import SlotTable
from apportion.shards.timeline.timeline import Disagreement, Timeline, disagreement
from apportion.stores import api

_WITHIN_SECONDS = 5.0
END_SECONDS = 30.0
"""The longest time for the end of each move. A later call that moves slots ends the rest."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class FailOver:
    """The state of a shard on a timeline that nobody has accepted, or the result of its acceptance.

    - `noted`, `found`: the noted timeline, and that of its server, each as cluster and number. They are equal if
      nothing has to be accepted. `noted` is None before the first connection.
    - `refused`: the slots of other shards that this shard must refuse.
    - `accepted`: the slots of this shard that it must accept again.
    - `lost`: the slots that moved to this shard, while its server does not know the move. They may lack rows.
    - `ahead`: the slots with a newer version than the table. The control store is an old copy.
    - `moves`: the moves of the shard that are under way. Those that have not switched are taken back.
    - `unended`: the moves that did not come to their end in time. The next `apply` ends them.
    """

    shard: str
    noted: str | None
    found: str
    refused: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    ahead: tuple[int, ...] = ()
    moves: tuple[str, ...] = ()
    unended: tuple[str, ...] = ()


async def accept_failover(
    url: str, name: str, shard: str, *, is_check: bool = False, accept_loss: bool = False
) -> FailOver:
    """Let a shard serve on the timeline that its server has now, after sessions raised `StoreWentBack`.

    The newest table decides: the shard first refuses all slots that lie elsewhere, then accepts its own again. Moves of
    the shard that have not switched are taken back. `apply` makes them anew.

    - `is_check`: only read, and return what would change.
    - `accept_loss`: slots that may lack rows serve with the rows that are there. Without it, nothing is written if
      there is such a slot.

    While another process moves slots of the set, this call waits. Nothing is written either if a slot is `ahead` of the
    table: first run `recover`. `InvalidInput` for a shard in a file. `StoreUnavailable` for a standby.
    """
    if is_check:
        return await io_thread().hop(_checked(url, name, shard))
    work = partial(_accepted, shard=shard, accepts_loss=accept_loss)
    return await carried(url, name, work, settles=False, trusts=lambda each: each == shard)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The facts about a shard: its record and its server, the table, the moves, and the slots that differ."""

    kept: KeptShard
    found: Timeline
    table: SlotTable
    same_table: api.Compare
    moves: KnownMoves
    here: tuple[str, ...]
    wrong: Disagreement

    @property
    def is_noted(self) -> bool:
        """Whether the server is on the noted timeline."""
        return self.found == self.kept.timeline

    def told(self, shard: str) -> FailOver:
        """Return the facts for the caller. On the noted timeline, leave out differing slots: they are moving."""
        noted = self.kept.timeline
        plain = FailOver(shard=shard, noted=None if noted is None else f"{noted}", found=f"{self.found}")
        if self.is_noted:
            return plain
        wrong = self.wrong
        return replace(
            plain, refused=wrong.losing, accepted=wrong.winning, lost=wrong.lost, ahead=wrong.ahead, moves=self.here
        )


async def _checked(url: str, name: str, shard: str) -> FailOver:
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        look = await _look(followed, MoveBook(followed.store, name, SystemClock()), shard)
        return look.told(shard)
    finally:
        await set_left(followed)


async def _look(followed: FollowedSet, book: MoveBook, shard: str) -> _Look:
    if shard not in followed.shards:
        raise UnknownOption("shard", shard, followed.shards)
    kept = await record_of(followed.store, followed.keys, shard)
    moves = await book.read()
    check_records(moves)
    table, same_table = await book.table()
    seen = await state_of_server(followed.keys.name, shard, kept.record)
    if seen is None:
        hint = "Put the file back in its place: sessions go on by themselves."
        raise InvalidInput("shard", shard, "one in PostgreSQL; a file has no fail-over", hint)
    found, rows = seen
    if not found.number:
        hint = "Promote it, or let the URL name the primary. Then run the same command."
        raise StoreUnavailable(f"shard {shard}", "its server is a standby", hint)
    pins = {slot for slot in map(slot_of_pin, moves.moving) if slot is not None}
    wrong = disagreement(shard, rows, table, pins | copied_to(shard, rows, moves))
    here = moves_at(shard, moves)
    return _Look(kept=kept, found=found, table=table, same_table=same_table, moves=moves, here=here, wrong=wrong)


async def _accepted(carrier: Carrier, shard: str, *, accepts_loss: bool) -> FailOver:
    """Accept the timeline of a shard, as the elected mover of its set."""
    book = carrier.mover.book
    look = await _look(carrier.followed, book, shard)
    told = look.told(shard)
    if look.is_noted or look.wrong.ahead or (look.wrong.lost and not accepts_loss):
        return told
    await _taken_back(book, look)
    await _asserted(carrier, shard, look)
    after = await _look(carrier.followed, book, shard)
    is_same = after.found == look.found and after.table.version == look.table.version
    if not is_same or after.wrong != Disagreement() or not await _noted(carrier, after):
        raise _changed(shard)
    return replace(told, unended=await _ended(carrier, look.here))


async def _taken_back(book: MoveBook, look: _Look) -> None:
    """Write the state `aborted` into the records of the moves that have not switched."""
    for kept in _kept(look):
        entry = kept.entry
        if entry.record.state in BEFORE_SWITCH:
            aborted = replace(entry.record, state="aborted")
            if not await book.write(kept, entry.changed(aborted, time.time())):
                raise _changed(entry.group.move)


async def _asserted(carrier: Carrier, shard: str, look: _Look) -> None:
    """Make the slot rows agree with the table. The rows that refuse come first.

    A slot that lies elsewhere may have no move under way. The old primary has deleted its old rows then, and the
    promoted standby may still have them. So they are deleted here as well.
    """
    site, token = await carrier.mover.sites.shard(shard), carrier.token
    for kept in _kept(look):
        await site.guard(kept.entry.group, token)
    refuse = RowChange(before=("owner", "fenced", "incoming"), after="moved", keeps_number=True)
    accept = RowChange(before=(None, "fenced", "moved", "incoming"), after="owner", number=look.table.version)
    losing = [*_groups(look, shard, look.wrong.losing)]
    for group in losing:
        carrier.mover.check()
        await site.change(group, refuse, token)
    for group in _groups(look, shard, (*look.wrong.winning, *look.wrong.lost)):
        carrier.mover.check()
        await site.change(group, accept, token)
    for group in losing:
        while group.move not in look.moves.kept and await site.clean(group, token):
            carrier.mover.check()


def _groups(look: _Look, shard: str, slots: Sequence[int]) -> Iterator[MoveGroup]:
    """Yield slots as groups: those of a move under its id, and all others under an id of the fail-over."""
    moving: Mapping[int, str] = {
        slot: kept.entry.group.move for kept in _kept(look) for slot in kept.entry.group.listed
    }
    own = f"failover-{look.found.number}"
    for move in sorted({moving.get(slot, own) for slot in slots}):
        part = sorted(slot for slot in slots if moving.get(slot, own) == move)
        for start in range(0, len(part), MOST_SLOTS):
            yield MoveGroup(move=move, source=shard, target=shard, slots=tuple(part[start : start + MOST_SLOTS]))


async def _noted(carrier: Carrier, look: _Look) -> bool:
    """Note the timeline. Return False if the record of the shard, the table or the list of moves changed meanwhile."""
    when = [look.same_table, carrier.mover.book.list_compare(look.moves)]
    return await look.kept.note(carrier.followed.store, look.found, when)


async def _ended(carrier: Carrier, moves: Sequence[str]) -> tuple[str, ...]:
    """End the moves of the shard. Return the moves that did not come to their end, because another shard is in trouble.

    The shard itself serves by now, so no error is raised.
    """
    left = []
    for move in moves:
        try:
            async with asyncio.timeout(END_SECONDS):
                if (slot := slot_of_pin(move)) is None:
                    await carrier.mover.run(move, carrier.token)
                else:
                    await carrier.own_slots.settle([slot])
        except (ApportionError, TimeoutError):
            left.append(move)
    return tuple(left)


def _kept(look: _Look) -> list[KeptMove]:
    return [look.moves.kept[move] for move in look.here if move in look.moves.kept]


def _changed(what: str) -> Conflict:
    return Conflict(f"the records of the set, or {what}, changed meanwhile.", "Run the same call again to go on.")
