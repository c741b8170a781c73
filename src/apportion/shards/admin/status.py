"""Status: a set in the control store, with its shards and moves, and on demand the rows and the progress of moves."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlalchemy.exc import DatabaseError

from apportion.errors import InvalidInput, SchemaDiffers, StoreDenied, Unavailable
from apportion.errors.brief import brief
from apportion.shards.admin.facts import moves_of, newest_migration, set_revisions
from apportion.shards.admin.places import open_sites
from apportion.shards.migration.record import MigrationRecord
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.book import KeptMove, KnownMoves
from apportion.shards.mover.sites import ShardSites
from apportion.shards.place import DatabasePlace
from apportion.shards.records import SetKeys, ShardRecord
from apportion.shards.reshard import MoveState, Way, Wish
from apportion.shards.router import FollowedSet, set_followed, set_left, table_of
from apportion.shards.shard import SlotSize
from apportion.shards.slot_rows import SlotState
from apportion.shards.slots import SlotTable
from apportion.shards.takeover.takeover import within
from apportion.tables.layout import Version

_WITHIN_SECONDS = 5.0
_SILENT = (InvalidInput, SchemaDiffers, StoreDenied, Unavailable)


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ShardStatus:
    """One shard: its id, its URLs in the control store, its weight, and its number of slots.

    `rows` counts the rows of all sharded tables, also old copies. It is None without `has_rows`, or if the shard did
    not answer. `problem` is the reason then. `has_owned` tells whether the shard owns a slot, or has owned one before.
    `revision` is its revision of Alembic. It is "" if it has none, without `has_rows`, or without an answer.
    """

    id: str
    url: str
    weight: float
    slots: int
    has_owned: bool = True
    rows: int | None = None
    problem: str = ""
    replication_url: str = ""
    revision: str = ""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStatus:
    """One move that is not over.

    - `left_behind`: its tables, triggers and rows that are still on its shards.
    - `attempt`: grows by one with each retreat from a fence, and with a reversal.
    - `way`: "reversible" if it can be reversed, from its switch until `clean`. "back" if it was reversed.
    - `wish`: the wish of the operator. A move with the wish "pause" rests.
    - `since`: the time of the last change of state, in seconds, by the wall clock of the mover's host.
    - `pause_seconds`: the time of all its fences that have ended; writers waited for that long at most.
    - `rows`: the number of its rows on the source; None without `has_rows`, or if the source did not answer.
    - `wal_kept_bytes`: the log that the source keeps for the move, also while the target is away. None for a move by a
      log of keys, without `has_progress`, or if the source did not answer.
    - `copied`, `lag`: the rows copied, and the logged changes that the target does not have yet. None without
      `has_progress`, or if a shard did not answer. `problem` is the reason then.
    """

    id: str
    state: MoveState
    source: str
    target: str
    slots: int
    left_behind: tuple[str, ...] = ()
    attempt: int = 1
    way: Way = "one-way"
    wish: Wish = "go"
    since: float = 0.0
    pause_seconds: float = 0.0
    rows: int | None = None
    copied: int | None = None
    lag: int | None = None
    wal_kept_bytes: int | None = None
    problem: str = ""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SetStatus:
    """A set: its name, the version of its table, its number of hash slots, its shards, and its moves.

    `damaged` describes unreadable records of moves, and an unreadable list of moving slots. `migration` is the newest
    migration, None if there was none.
    """

    name: str
    version: Version
    hash_slots: int
    shards: tuple[ShardStatus, ...]
    moves: tuple[MoveStatus, ...]
    table: SlotTable
    damaged: tuple[str, ...] = ()
    migration: MigrationRecord | None = None


ShardSizes = Mapping[int, SlotSize] | str
"""The size of each slot of a shard, or the reason why the shard did not answer."""


async def set_status(
    url: str,
    name: str,
    *,
    has_rows: bool = False,
    has_progress: bool = False,
    counted: Mapping[str, ShardSizes] | None = None,
) -> SetStatus:
    """Return a set in the control store.

    Errors are those of `open_shards`. `has_rows` asks each shard for its rows too, and `has_progress` for its moves.
    `counted` has the sizes of an earlier count, which give the rows of the moves.
    """
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        table, moves = table_of(followed.follower.routes), await moves_of(followed, needs_list=False)
        sizes = await _sizes(followed) if has_rows else counted or {}
        left = await _left_behind(followed, moves) if has_rows else {}
        found = [
            _move(kept, left.get(move, ()), sizes.get(kept.entry.group.source, ""))
            for move, kept in sorted(moves.kept.items())
        ]
        migration, _ = await newest_migration(followed)
        answering = [shard for shard, size in sizes.items() if not isinstance(size, str)] if has_rows else []
        revisions = await set_revisions(followed, answering, migration)
        counts = Counter(table.owners.values())
        fresh = {shard for shard in followed.shards if not counts[shard] and not await _has_owned(followed, shard)}
        if has_progress:
            found = [await _progressed(followed, each, moves.kept[each.id]) for each in found]
    finally:
        await set_left(followed)
    return SetStatus(
        name=name,
        version=table.version,
        hash_slots=table.hash_slots,
        shards=tuple(
            replace(
                _shard(shard, record, counts[shard], sizes.get(shard, "") if has_rows else ""),
                has_owned=shard not in fresh,
                revision=revisions.get(shard, ""),
            )
            for shard, record in sorted(followed.shards.items())
        ),
        moves=tuple(found),
        table=table,
        damaged=tuple(error.problem for _, error in sorted(moves.damaged.items())),
        migration=migration,
    )


async def set_sizes(url: str, name: str) -> dict[str, ShardSizes]:
    """Return the sizes of the slots of each shard, or the reason why the shard does not answer. O(rows)."""
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        return await _sizes(followed)
    finally:
        await set_left(followed)


async def _has_owned(followed: FollowedSet, shard: str) -> bool:
    """Whether a shard without slots has owned one: the slot rows of former slots stay. A silent shard counts as new."""
    place = DatabasePlace(followed.shards[shard].address())
    if not place.is_there():
        return False
    try:
        return bool(await asyncio.to_thread(_states, shard, place))
    except (*_SILENT, DatabaseError):
        return False


def _states(shard: str, place: DatabasePlace) -> Mapping[int, SlotState]:
    with place.reader() as reader:
        return within(reader, shard, place.fence.states)


def _shard(shard: str, record: ShardRecord, slots: int, sizes: ShardSizes) -> ShardStatus:
    other = record.replication_url
    plain = ShardStatus(id=shard, url=record.url, weight=record.weight, slots=slots, replication_url=other)
    if isinstance(sizes, str):
        return replace(plain, problem=sizes)
    return replace(plain, rows=sum(size.rows for size in sizes.values()))


def _move(kept: KeptMove, left: tuple[str, ...], sizes: ShardSizes) -> MoveStatus:
    entry = kept.entry
    group = entry.group
    none = SlotSize(rows=0, bytes=0)
    rows = None if isinstance(sizes, str) else sum(sizes.get(slot, none).rows for slot in group.slots)
    return MoveStatus(
        id=group.move,
        state=entry.record.state,
        source=group.source,
        target=group.target,
        slots=len(group.slots),
        left_behind=left,
        attempt=entry.record.attempt,
        way=entry.record.way,
        wish=entry.wish,
        since=entry.since,
        pause_seconds=entry.pause_seconds,
        rows=rows,
    )


async def _progressed(followed: FollowedSet, move: MoveStatus, kept: KeptMove) -> MoveStatus:
    """Return a move with the progress of its rows, or with the reason why a shard did not answer."""
    group = kept.entry.group
    try:
        async with open_sites(followed.keys.name, followed.shards) as sites:
            move = replace(move, wal_kept_bytes=await _wal_kept(sites, group))
            state = await (await sites.channel(group)).state(move.attempt)
    except _SILENT as error:
        return replace(move, problem=error.problem)
    return replace(move, copied=state.copied, lag=state.lag)


async def _wal_kept(sites: ShardSites, group: MoveGroup) -> int | None:
    """Return the bytes of the log that the source keeps for a group, None if it keeps none or does not answer."""
    try:
        log = await sites.kept_log(group)
        size = None if log is None else await log.size()
    except _SILENT:
        return None
    return None if size is None else size.bytes


async def _sizes(followed: FollowedSet) -> dict[str, ShardSizes]:
    """Return the sizes of the slots of each shard, or the reason why the shard does not answer."""
    found: dict[str, ShardSizes] = {}
    for shard, record in followed.shards.items():
        try:
            async with open_sites(followed.keys.name, {shard: record}) as sites:
                found[shard] = await (await sites.shard(shard)).sizes()
        except _SILENT as error:
            found[shard] = error.problem
    return found


async def _left_behind(followed: FollowedSet, moves: KnownMoves) -> dict[str, tuple[str, ...]]:
    """Return, for each move, the names of its parts that its shards still have.

    A shard that does not answer is named in place of the parts.
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
