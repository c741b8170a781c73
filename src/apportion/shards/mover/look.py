"""Look: all that a mover reads before an act, as the view by which the machine decides.

The version of the table is read before the record, and the record before the shards. So a switch that lands between
two reads is a later one: the record that was read is then out of date, and every commit that compares it fails.

Promises: a target that does not answer, or that refuses, is told as away; nothing is guessed in its place.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from apportion.errors import ApportionError
from apportion.shards.channel import ChannelState
from apportion.shards.mover.book import KeptMove
from apportion.shards.mover.sites import ShardSites
from apportion.shards.reshard import MoveView
from apportion.shards.slot_rows import SlotRow, SlotState
from apportion.tables.layout import Version

NEAR_ROWS = 200
"""The logged changes that may be left when the source is fenced; they take far less than `FENCE_SECONDS`."""

Hurry = Callable[[str], AbstractAsyncContextManager[None]]
"""A block within which a shard has to reply; `StoreUnavailable` at its end if it does not."""

# No table has this version. So rows with different numbers match no table, and they are announced again.
_MIXED = Version(incarnation=0, number=0)
_SOURCE: tuple[SlotState, ...] = ("owner", "incoming", "fenced", "moved")
_TARGET: tuple[SlotState | None, ...] = (None, "moved", "incoming", "fenced", "owner")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A record, the findings beside it, and the reason why the target is away, if it is."""

    kept: KeptMove
    newest: Version
    source: SlotRow
    target: SlotRow | None
    channel: ChannelState
    away: ApportionError | None = None

    def view(self, *, is_late: bool, is_cleaned: bool) -> MoveView:
        """Return the view of the machine."""
        entry, channel = self.kept.entry, self.channel
        return MoveView(
            record=entry.record,
            newest=self.newest,
            source=self.source,
            target=self.target,
            is_captured=channel.is_captured,
            is_copied=channel.is_copied,
            is_near=channel.is_drained or channel.lag <= NEAR_ROWS,
            is_drained=channel.is_drained,
            is_verified=channel.is_verified,
            is_late=is_late,
            is_cleaned=is_cleaned,
            is_listed=self.kept.is_listed,
            is_target_away=self.away is not None,
            wish=entry.wish,
        )


async def looked(sites: ShardSites, kept: KeptMove, newest: Version, away: ApportionError | None, hurry: Hurry) -> Look:
    """Read the rows of both shards and the state of the channel; `StoreUnavailable` if the source is away.

    `away` tells why the target was away a moment ago; then it is not asked. `hurry` bounds the wait for it.
    """
    group = kept.entry.group
    source = source_row(await (await sites.shard(group.source)).rows(group))
    if away is not None:
        return Look(kept=kept, newest=newest, source=source, target=None, channel=ChannelState(), away=away)
    try:
        async with hurry(group.target):
            target = target_row(await (await sites.shard(group.target)).rows(group))
            channel = await (await sites.channel(group)).state(kept.entry.record.attempt)
    except ApportionError as error:
        return Look(kept=kept, newest=newest, source=source, target=None, channel=ChannelState(), away=error)
    return Look(kept=kept, newest=newest, source=source, target=target, channel=channel)


def source_row(rows: Sequence[SlotRow | None]) -> SlotRow:
    """Return the row that stands for all rows of a group on its source: the row that is furthest behind."""
    states = {"moved" if row is None else row.state for row in rows}
    state = next(each for each in _SOURCE if each in states)
    return SlotRow(state="owner" if state == "incoming" else state)


def target_row(rows: Sequence[SlotRow | None]) -> SlotRow | None:
    """Return the row that stands for all rows of a group on its target; None while one of them is absent."""
    states = {None if row is None else row.state for row in rows}
    state = next(each for each in _TARGET if each in states)
    numbers = {row.number for row in rows if row is not None}
    if state is None:
        return None
    return SlotRow(state=state, number=numbers.pop() if len(numbers) == 1 else _MIXED)
