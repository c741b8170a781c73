"""Remains: the moves that have left something on the shards, as the databases name them.

Most slot rows name the last move of their slot, also long after its end. So the names of the moves are collected first.
Then each shard is asked which parts of these moves are still there.
"""

# ruff: noqa: S608 - the names of the tables are fixed

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import Connection, inspect

from apportion.shards.mover.recovery import AllRemains, MoveRemains
from apportion.shards.mover.sites import ShardSites
from apportion.shards.place import DatabasePlace
from apportion.shards.postgres.key_log import log_name
from apportion.shards.records import ShardRecord
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


def _named(shard: str, record: ShardRecord) -> dict[str, MoveRemains]:
    """Return each move that the database of a shard names."""
    database = DatabasePlace(record.address())
    with database.reader() as reader:
        slots, captured = within(reader, shard, _in_file if database.path is not None else _on_server)
    return {
        move: MoveRemains(slots=frozenset(slots[move]), is_captured=move in captured) for move in {*slots, *captured}
    }


def _in_file(connection: Connection) -> tuple[Mapping[str, set[int]], set[str]]:
    slots = _slots(connection, "apportion_slot")
    if not inspect(connection).has_table("apportion_capture"):
        return slots, set()
    captured = _slots(connection, "apportion_capture")
    for move, each in captured.items():
        slots[move] |= each
    return slots, set(captured)


def _on_server(connection: Connection) -> tuple[Mapping[str, set[int]], set[str]]:
    logs, prefix = connection.exec_driver_sql(_LOGS).scalars().all(), log_name("")
    captured = {name.removeprefix(prefix) for name in logs if name.startswith(prefix)}
    captured |= set(connection.exec_driver_sql(_PUBLISHED).scalars())
    return _slots(connection, "apportion.slot"), captured


def _slots(connection: Connection, table: str) -> defaultdict[str, set[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for move, slot in connection.exec_driver_sql(f"SELECT move, slot FROM {table} WHERE move IS NOT NULL"):
        found[move].add(slot)
    return found
