"""Status: a set in the control store, with its shards and moves, and on demand the number of rows on each shard."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from apportion.errors import InvalidInput, StoreDenied, Unavailable
from apportion.shards.admin.facts import moves_of
from apportion.shards.admin.places import open_sites
from apportion.shards.mover.book import KnownMoves
from apportion.shards.mover.sites import ShardSites
from apportion.shards.records import SetKeys, ShardRecord
from apportion.shards.reshard import MoveState
from apportion.shards.router import FollowedSet, set_followed, set_left, table_of
from apportion.shards.slots import SlotTable
from apportion.tables.layout import Version

_WITHIN_SECONDS = 5.0
_SILENT = (InvalidInput, StoreDenied, Unavailable)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardStatus:
    """One shard: its id, its URL in the control store, its weight, and its number of slots.

    `rows` counts the rows of all sharded tables, also old copies. It is None without `has_rows`, or if the shard did
    not answer.
    """

    id: str
    url: str
    weight: float
    slots: int
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStatus:
    """One move that is not over. `left_behind` names its tables, triggers and rows that are still on its shards."""

    id: str
    state: MoveState
    source: str
    target: str
    slots: int
    left_behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStatus:
    """A set: its name, the version of its table, its number of hash slots, its shards, and its moves.

    `damaged` describes unreadable records of moves, and an unreadable list of moving slots.
    """

    name: str
    version: Version
    hash_slots: int
    shards: tuple[ShardStatus, ...]
    moves: tuple[MoveStatus, ...]
    table: SlotTable
    damaged: tuple[str, ...] = ()


async def set_status(url: str, name: str, *, has_rows: bool = False) -> SetStatus:
    """Return a set in the control store.

    Errors are those of `open_shards`. `has_rows` asks each shard for its rows too.
    """
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        table, moves = table_of(followed.follower.routes), await moves_of(followed, needs_list=False)
        rows = await _rows(followed) if has_rows else {}
        left = await _left_behind(followed, moves) if has_rows else {}
    finally:
        await set_left(followed)
    counts = Counter(table.owners.values())
    return SetStatus(
        name=name,
        version=table.version,
        hash_slots=table.hash_slots,
        shards=tuple(
            ShardStatus(id=shard, url=record.url, weight=record.weight, slots=counts[shard], rows=rows.get(shard))
            for shard, record in sorted(followed.shards.items())
        ),
        moves=_moves(moves, left),
        table=table,
        damaged=tuple(error.problem for _, error in sorted(moves.damaged.items())),
    )


def _moves(moves: KnownMoves, left: Mapping[str, tuple[str, ...]]) -> tuple[MoveStatus, ...]:
    return tuple(
        MoveStatus(
            id=move,
            state=kept.entry.record.state,
            source=kept.entry.group.source,
            target=kept.entry.group.target,
            slots=len(kept.entry.group.slots),
            left_behind=left.get(move, ()),
        )
        for move, kept in sorted(moves.kept.items())
    )


async def _rows(followed: FollowedSet) -> dict[str, int]:
    """Return the rows of each shard that answers."""
    found = {}
    for shard, record in followed.shards.items():
        try:
            async with open_sites(followed.keys.name, {shard: record}) as sites:
                sizes = await (await sites.shard(shard)).sizes()
        except _SILENT:
            continue
        found[shard] = sum(size.rows for size in sizes.values())
    return found


async def _left_behind(followed: FollowedSet, moves: KnownMoves) -> dict[str, tuple[str, ...]]:
    """Return, for each move, the names of its parts that its shards still have.

    A silent shard is named in their place.
    """
    found = {}
    for move, kept in moves.kept.items():
        group = kept.entry.group
        pair = {shard: followed.shards[shard] for shard in (group.source, group.target) if shard in followed.shards}
        found[move] = await _left_on(followed.keys.name, pair, move)
    return found


async def _left_on(name: str, pair: Mapping[str, ShardRecord], move: str) -> tuple[str, ...]:
    left: list[str] = []
    for shard, record in pair.items():
        try:
            async with open_sites(name, {shard: record}) as sites:
                left += [f"{shard}: {each}" for each in await _told(sites, shard, move)]
        except _SILENT as error:
            left.append(f"{shard}: it does not answer ({error.problem})")
    return tuple(left)


async def _told(sites: ShardSites, shard: str, move: str) -> list[str]:
    return list(await (await sites.shard(shard)).left_behind(move))
