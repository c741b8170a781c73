"""Remains: the moves that have left something on the shards, as the databases name them.

Most slot rows name the last move of their slot, also long after its end. So the names of the moves are collected first.
Then each shard is asked which parts of these moves are still there.
"""

# ruff: noqa: S608 - the names of the tables are fixed

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress

from sqlalchemy import Connection, inspect
from sqlalchemy.exc import DatabaseError

from apportion.errors import ApportionError
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.recovery import AllRemains, MoveRemains
from apportion.shards.mover.sites import ShardSites
from apportion.shards.place import DatabasePlace
from apportion.shards.postgres.key_log import log_name
from apportion.shards.records import ShardRecord
from apportion.shards.sqlite.capture import TABLES
from apportion.shards.takeover.takeover import within

_LOGS = "SELECT relname FROM pg_class WHERE relnamespace = 'apportion'::regnamespace AND relkind = 'r'"

_PUBLISHED = "SELECT move FROM apportion.move WHERE relation = 'publication'"


async def remains_of(shards: Mapping[str, ShardRecord], sites: ShardSites) -> AllRemains:
    """Return the parts of moves that are left on the shards. `StoreUnavailable` if a shard does not answer."""
    found: defaultdict[str, dict[str, MoveRemains]] = defaultdict(dict)
    for shard, record in sorted(shards.items()):
        site = await sites.shard(shard)
        for move, part in sorted((await asyncio.to_thread(_named, shard, record)).items()):
            if await site.left_behind(move):
                found[move][shard] = part
    return found


async def logged(shards: Mapping[str, ShardRecord], groups: Sequence[MoveGroup]) -> Sequence[MoveGroup]:
    """Return the groups that still have a part of their log on their source. A source without a reply has none here."""
    found: dict[str, Set[str]] = {}
    for source in sorted({group.source for group in groups} & shards.keys()):
        with suppress(ApportionError, DatabaseError):
            found[source] = await asyncio.to_thread(_logs_of, source, shards[source])
    return [group for group in groups if group.move in found.get(group.source, ())]


def _logs_of(shard: str, record: ShardRecord) -> Set[str]:
    """Return the moves that have a part of their log in the database of a shard."""
    database = DatabasePlace(record.address())
    if not database.is_there():
        return frozenset()
    with database.reader() as reader:
        return within(reader, shard, _logs_in_file if database.path is not None else _logs_on_server)


def _logs_in_file(connection: Connection) -> Set[str]:
    """Return the moves that still capture, and those with entries in the log."""
    there = [name for name in TABLES if inspect(connection).has_table(name)]
    return {
        move for name in there for move in connection.exec_driver_sql(f"SELECT DISTINCT move FROM {name}").scalars()
    }


def _logs_on_server(connection: Connection) -> Set[str]:
    """Return the moves with a log of keys, and those with a publication."""
    logs, prefix = connection.exec_driver_sql(_LOGS).scalars().all(), log_name("")
    named = {name.removeprefix(prefix) for name in logs if name.startswith(prefix)}
    return named | set(connection.exec_driver_sql(_PUBLISHED).scalars())


def _named(shard: str, record: ShardRecord) -> dict[str, MoveRemains]:
    """Return each move that the database of a shard names."""
    database = DatabasePlace(record.address())
    with database.reader() as reader:
        slots, captured = within(reader, shard, _in_file if database.path is not None else _on_server)
    return {
        move: MoveRemains(slots=frozenset(slots[move]), is_captured=move in captured) for move in {*slots, *captured}
    }


def _in_file(connection: Connection) -> tuple[Mapping[str, set[int]], Set[str]]:
    slots = _slots(connection, "apportion_slot")
    if not inspect(connection).has_table("apportion_capture"):
        return slots, set()
    captured = _slots(connection, "apportion_capture")
    for move, each in captured.items():
        slots[move] |= each
    return slots, set(captured)


def _on_server(connection: Connection) -> tuple[Mapping[str, set[int]], Set[str]]:
    return _slots(connection, "apportion.slot"), _logs_on_server(connection)


def _slots(connection: Connection, table: str) -> defaultdict[str, set[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for move, slot in connection.exec_driver_sql(f"SELECT move, slot FROM {table} WHERE move IS NOT NULL"):
        found[move].add(slot)
    return found
