"""Channels: for each pair of shards of a plan, the best channel that is possible, with the reason. Nothing is written.

Promises: files of SQLite have one channel, so they are left out. If a shard does not answer, the channel is "keys", and
the reason is the error.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlalchemy.engine import make_url

from apportion.errors import ApportionError
from apportion.errors.brief import brief
from apportion.shards.channel import ChannelKind
from apportion.shards.move_group import MoveGroup
from apportion.shards.plan import ShardPlan
from apportion.shards.records import SetKeys, ShardRecord
from apportion.shards.router import set_followed, set_left

if TYPE_CHECKING:
    from apportion.shards.postgres.sites import PostgresSites

_WITHIN_SECONDS = 5.0


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class PairChannel:
    """The channel that `auto` takes from one shard to another: "native" or "keys". `reason` says why."""

    source: str
    target: str
    kind: ChannelKind
    reason: str


async def plan_channels(url: str, name: str, plan: ShardPlan) -> tuple[PairChannel, ...]:
    """Return the channel of each pair of a plan, sorted by the pair."""
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        pairs = {(move.source, move.target): move for move in reversed(plan.moves)}
        return await pair_channels(name, followed.shards, [move for _, move in sorted(pairs.items())])
    finally:
        await set_left(followed)


async def pair_channels(
    name: str, shards: Mapping[str, ShardRecord], groups: Iterable[MoveGroup]
) -> tuple[PairChannel, ...]:
    """Return the channel of each group, () for files of SQLite."""
    if {make_url(record.url).get_backend_name() for record in shards.values()} != {"postgresql"}:
        return ()
    from apportion.shards.postgres.sites import PostgresSites  # noqa: PLC0415 - needs the driver

    sites = PostgresSites(name, {shard: replace(record, timeline=None) for shard, record in shards.items()})
    try:
        return tuple([await _channel(sites, group) for group in groups])
    finally:
        await sites.close()


async def _channel(sites: "PostgresSites", group: MoveGroup) -> PairChannel:
    try:
        choice = await sites.choice(group)
        kind, reason = choice.kind, choice.reason
    except ApportionError as error:
        kind, reason = "keys", error.problem
    return PairChannel(source=group.source, target=group.target, kind=kind, reason=reason)
