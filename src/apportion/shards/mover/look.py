"""Look: the facts that a mover reads before an act. The machine of `reshard` decides by them.

The version of the table is read before the record, and the record before the shards. If a switch comes between two of
these reads, the record that was read is out of date. Then every commit that compares this record fails.

Promises: a target that refuses or does not answer counts as away. Nothing is guessed in its place.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from apportion.errors import ApportionError
from apportion.runtime.both import both
from apportion.shards.channel import ChannelState
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.book import KeptMove
from apportion.shards.mover.sites import ShardSites
from apportion.shards.reshard import BEFORE_SWITCH, MoveView
from apportion.shards.slot_rows import SlotRow, SlotState
from apportion.tables.layout import Version

NEAR_ROWS = 200
"""The most logged changes that may be left when the source is fenced.

Their copy takes far less than `FENCE_SECONDS`.
"""

Hurry = Callable[[str], AbstractAsyncContextManager[None]]
"""A block with a time limit for the replies of a shard. `StoreUnavailable` when the limit is over."""

# No table has this version. So rows with different numbers match no table, and the number is announced again.
_MIXED = Version(incarnation=0, number=0)
_ENDED = frozenset({"complete", "aborted"})  # then a rest of the log counts as a capture, so that it is removed
_SOURCE: tuple[SlotState, ...] = ("owner", "incoming", "fenced", "moved")
_TARGET: tuple[SlotState | None, ...] = (None, "moved", "incoming", "fenced", "owner")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A record, the state of both shards, and the error of a target that is away.

    `has_arrived` tells that the target owns, or owned, a slot of the move.
    """

    kept: KeptMove
    newest: Version
    source: SlotRow
    target: SlotRow | None
    channel: ChannelState
    away: ApportionError | None = None
    has_arrived: bool = False

    @property
    def is_contradicted(self) -> bool:
        """Whether the slots have switched, though the record says that they have not. Then the record is an old copy.

        Another mover may have switched them between the reads. So the record is read once more before it is blamed.
        """
        entry = self.kept.entry
        state = entry.record.state
        has_left = self.source.state == "moved" and state in BEFORE_SWITCH
        return has_left or (self.has_arrived and state in (*BEFORE_SWITCH, "aborted"))

    def view(self, *, is_late: bool, is_cleaned: bool) -> MoveView:
        """Return the view from which the machine decides."""
        entry, channel = self.kept.entry, self.channel
        has_rest = channel.has_log and entry.record.state in _ENDED
        return MoveView(
            record=entry.record,
            newest=self.newest,
            source=self.source,
            target=self.target,
            is_captured=channel.is_captured or has_rest,
            is_captured_back=channel.is_captured_back,
            is_copied=channel.is_copied,
            is_near=channel.is_near and (channel.is_drained or channel.lag <= NEAR_ROWS),
            is_drained=channel.is_drained,
            is_verified=channel.is_verified,
            is_late=is_late,
            is_cleaned=is_cleaned,
            is_listed=self.kept.is_listed,
            is_target_away=self.away is not None,
            wish=entry.wish,
        )


async def looked(sites: ShardSites, kept: KeptMove, newest: Version, away: ApportionError | None, hurry: Hurry) -> Look:
    """Read the slot rows of both shards and the state of the channel. `StoreUnavailable` if the source is away.

    `away` is the error of a target that did not answer a moment ago. Such a target is not asked again. `hurry` limits
    the wait for the target.
    """
    group = kept.entry.group
    source = source_row(await (await sites.shard(group.source)).rows(group))
    if away is not None:
        return Look(kept=kept, newest=newest, source=source, target=None, channel=ChannelState(), away=away)
    try:
        async with hurry(group.target):
            rows, channel = await both(_rows(sites, group), _state(sites, kept))
            target = target_row(rows)
    except ApportionError as error:
        return Look(kept=kept, newest=newest, source=source, target=None, channel=ChannelState(), away=error)
    arrived = any(row is not None and row.state in ("owner", "fenced") for row in rows)
    return Look(kept=kept, newest=newest, source=source, target=target, channel=channel, has_arrived=arrived)


async def _rows(sites: ShardSites, group: MoveGroup) -> Sequence[SlotRow | None]:
    return await (await sites.shard(group.target)).rows(group.arriving)


async def _state(sites: ShardSites, kept: KeptMove) -> ChannelState:
    return await (await sites.channel(kept.entry.group)).state(kept.entry.record.attempt)


def source_row(rows: Sequence[SlotRow | None]) -> SlotRow:
    """Return one row for all slot rows of a group on its source: the row with the earliest state of a move."""
    states = {"moved" if row is None else row.state for row in rows}
    state = next(each for each in _SOURCE if each in states)
    return SlotRow(state="owner" if state == "incoming" else state)


def target_row(rows: Sequence[SlotRow | None]) -> SlotRow | None:
    """Return one row for all slot rows of a group on its target: the row with the earliest state of a move.

    None if a row is absent.
    """
    states = {None if row is None else row.state for row in rows}
    state = next(each for each in _TARGET if each in states)
    numbers = {row.number for row in rows if row is not None}
    if state is None:
        return None
    return SlotRow(state=state, number=numbers.pop() if len(numbers) == 1 else _MIXED)
