"""The channel between two SQLite files: a group moves while writers write, and nothing of a move stays behind."""

import asyncio
import sqlite3
from contextlib import asynccontextmanager, closing
from dataclasses import replace

import pytest

from apportion.model.epoch import FencingToken
from apportion.shards.move_group import ROW_CHANGES, MoveGroup
from apportion.shards.sqlite.schema import TABLES, triggers
from apportion.shards.sqlite.sites import SqliteSites
from apportion.tables.layout import Version

TOKEN = FencingToken(resource="world.mover", holder="a", incarnation=1, epoch=1)
SLOTS = (3, 4, 9)
GROUP = MoveGroup(move="m1", source="one", target="two", slots=SLOTS)
SCHEMA = (
    """CREATE TABLE place (slot SMALLINT NOT NULL, id TEXT PRIMARY KEY NOT NULL, country TEXT, visits INTEGER, note)""",
    "CREATE UNIQUE INDEX place_by_slot ON place (slot, id)",
    """CREATE TABLE photo (
        slot SMALLINT NOT NULL, a INTEGER NOT NULL, b TEXT NOT NULL,
        place_id TEXT REFERENCES place (id) ON DELETE CASCADE,
        size REAL, doubled AS (size * 2) STORED, PRIMARY KEY (a, b)
    ) WITHOUT ROWID""",
    "CREATE UNIQUE INDEX photo_by_slot ON photo (slot, a, b)",
)


class Pair:
    """Two files of a set: shard one owns all slots, and has rows in those that move and in others."""

    def __init__(self, folder, rows=100, mode="wal"):
        self.paths = {shard: folder / f"{shard}.db" for shard in ("one", "two")}
        for path in self.paths.values():
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(f"PRAGMA journal_mode = {mode}")
                for statement in (*SCHEMA, *TABLES, *triggers("place"), *triggers("photo")):
                    connection.execute(statement)
        owned = "INSERT INTO apportion_slot (slot, state) VALUES (?, 'owner')"
        place = "INSERT INTO place VALUES (?, ?, 'FR', ?, ?)"
        photo = "INSERT INTO photo (slot, a, b, place_id, size) VALUES (?, ?, 'x', ?, ?)"
        with closing(sqlite3.connect(self.paths["one"])) as connection, connection:
            connection.executemany(owned, [(slot,) for slot in range(16)])
            connection.executemany(place, [(each % 16, f"p{each}", each, each / 2) for each in range(rows)])
            connection.executemany(photo, [(each % 16, each, f"p{each}", each) for each in range(rows)])

    def sql(self, shard, statement, values=()):
        with closing(sqlite3.connect(self.paths[shard])) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def rows(self, shard, slots=SLOTS):
        listed = f"({', '.join(map(str, slots))})"
        return [
            sorted(self.sql(shard, f"SELECT * FROM {table} WHERE slot IN {listed}")) for table in ("place", "photo")
        ]


@asynccontextmanager
async def opened(pair):
    sites = SqliteSites("world", pair.paths)
    try:
        yield sites
    finally:
        await sites.close()


async def copied(sites, group=GROUP, token=TOKEN):
    target, channel = await sites.shard(group.target), await sites.channel(group)
    for shard in (group.source, group.target):
        await (await sites.shard(shard)).guard(group, token)
    await target.change(group, ROW_CHANGES["prepare"], token)
    await channel.capture(token)
    while not (await channel.state(1)).is_copied:
        await channel.copy(token)
    return channel


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_group_moves_and_nothing_stays_behind(tmp_path, mode):
    pair = Pair(tmp_path, mode=mode)

    async def main():
        async with opened(pair) as sites:
            source, target = await sites.shard("one"), await sites.shard("two")
            channel = await copied(sites)
            pair.sql("one", "UPDATE place SET visits = -1 WHERE slot = 3")
            pair.sql("one", "DELETE FROM photo WHERE slot = 4")
            pair.sql("one", "INSERT INTO place VALUES (9, 'new', 'DE', 1, x'00ff')")
            assert 0 < (await channel.state(1)).lag
            await channel.apply(TOKEN)
            await channel.verify(1, TOKEN)
            assert (await channel.state(1)).is_verified
            await source.change(GROUP, ROW_CHANGES["fence"], TOKEN)
            state = await channel.state(1)
            assert (True, True) == (state.is_drained, state.is_verified)
            number = Version(incarnation=7, number=2)
            await target.change(GROUP, replace(ROW_CHANGES["announce"], number=number), TOKEN)
            assert pair.rows("one") == pair.rows("two")
            await source.change(GROUP, ROW_CHANGES["settle-source"], TOKEN)
            await target.change(GROUP, ROW_CHANGES["settle-target"], TOKEN)
            await channel.uncapture(TOKEN)
            while await source.clean(GROUP, TOKEN):
                pass
            assert [[], []] == pair.rows("one")
            assert ([], []) == (await source.left_behind("m1"), await target.left_behind("m1"))

    asyncio.run(main())
