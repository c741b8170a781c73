"""Two SQLite files of a set with tables of many shapes, for tests of moves between them."""

import sqlite3
from contextlib import asynccontextmanager, closing

from apportion.model.epoch import FencingToken
from apportion.shards.move_group import ROW_CHANGES, MoveGroup
from apportion.shards.sqlite.schema import TABLES, triggers
from apportion.shards.sqlite.sites import SqliteSites

TOKEN = FencingToken(resource="world.mover", holder="a", incarnation=1, epoch=1)
SLOTS = (3, 4, 9)
GROUP = MoveGroup(move="it's 1", source="one", target="two", slots=SLOTS)
ODD = """odd "name"'s"""
ODD_COLUMN = """key 'a"b"""
_ODD, _COLUMN = (name.replace('"', '""') for name in (ODD, ODD_COLUMN))
SCHEMA = (
    "CREATE TABLE place (slot SMALLINT NOT NULL, id TEXT PRIMARY KEY NOT NULL, country TEXT, visits INTEGER, note)",
    "CREATE UNIQUE INDEX place_by_slot ON place (slot, id)",
    """CREATE TABLE photo (
        slot SMALLINT NOT NULL, a INTEGER NOT NULL, b TEXT NOT NULL, size REAL, doubled AS (size * 2) STORED,
        place_id TEXT REFERENCES place (id) ON DELETE CASCADE, other_id TEXT REFERENCES place (id) ON DELETE SET NULL,
        PRIMARY KEY (a, b)
    ) WITHOUT ROWID""",
    "CREATE UNIQUE INDEX photo_by_slot ON photo (slot, a, b)",
    f"""CREATE TABLE "{_ODD}" (
        "{_COLUMN}" INTEGER NOT NULL, k2, k3 BLOB, k4 TEXT COLLATE NOCASE, slot SMALLINT NOT NULL, name TEXT,
        label TEXT, upper AS (upper(label)), PRIMARY KEY ("{_COLUMN}", k2, k3, k4), UNIQUE (slot, name)
    )""",
    "CREATE TABLE plain (id INTEGER PRIMARY KEY, slot SMALLINT NOT NULL)",
)
SHARDED = ("place", "photo", ODD)
_META = """INSERT INTO apportion_meta (only, format, set_id, shard, slots, hasher)
    VALUES (1, 1, 'world', ?, 64, 'xxh3-64')"""


class FilePair:
    """Two files of a set: shard one owns the slots 0 .. 15, shard two owns 16 .. 31."""

    def __init__(self, folder, rows=100, mode="wal"):
        self.paths = {shard: folder / f"{shard}.db" for shard in ("one", "two")}
        for number, shard in enumerate(self.paths):
            self.make(shard, number, mode)
        place = "INSERT INTO place VALUES (?, ?, 'FR', ?, ?)"
        photo = "INSERT INTO photo (slot, a, b, place_id, size) VALUES (?, ?, 'x', ?, ?)"
        self.many("one", place, [(each % 16, f"p{each}", each, each / 2) for each in range(rows)])
        self.many("one", photo, [(each % 16, each, f"p{each}", each) for each in range(rows)])

    def make(self, shard, number=0, mode="wal", encoding="UTF-8"):
        self.paths[shard].unlink(missing_ok=True)
        with closing(sqlite3.connect(self.paths[shard])) as connection, connection:
            connection.execute(f"PRAGMA encoding = '{encoding}'")
            connection.execute(f"PRAGMA journal_mode = {mode}")
            for statement in (*SCHEMA, *TABLES, *(each for table in SHARDED for each in triggers(table))):
                connection.execute(statement)
            connection.execute(_META, (shard,))
            owned = "INSERT INTO apportion_slot (slot, state) VALUES (?, 'owner')"
            connection.executemany(owned, [(16 * number + slot,) for slot in range(16)])

    def sql(self, shard, *statements, mask=False):
        """Run statements in one transaction; `mask` runs them as a program does that masks the triggers."""
        with closing(sqlite3.connect(self.paths[shard])) as connection, connection:
            connection.execute("PRAGMA foreign_keys = ON")
            before, after = ("INSERT INTO apportion_mover VALUES ('x')", "DELETE FROM apportion_mover")
            for statement in (before, *statements, after) if mask else statements:
                found = connection.execute(statement).fetchall()
        return found

    def many(self, shard, statement, values):
        with closing(sqlite3.connect(self.paths[shard])) as connection, connection:
            connection.executemany(statement, values)

    def rows(self, shard, slots=SLOTS):
        """Return the rows of slots in all tables, each value with its type."""
        listed = f"({', '.join(map(str, slots))})"
        names = [table.replace('"', '""') for table in SHARDED]
        found = [self.sql(shard, f'SELECT * FROM "{name}" WHERE slot IN {listed}') for name in names]
        return [sorted(repr([(type(value), value) for value in row]) for row in table) for table in found]


@asynccontextmanager
async def opened(pair):
    """Open the shards of a pair, and close them at the end."""
    sites = SqliteSites("world", pair.paths)
    try:
        yield sites
    finally:
        await sites.close()


async def prepared(sites, group=GROUP, token=TOKEN):
    """Prepare the target, and capture; return the channel."""
    target, channel = await sites.shard(group.target), await sites.channel(group)
    await target.change(group, ROW_CHANGES["prepare"], token)
    await channel.capture(token)
    return channel


async def copied(sites, group=GROUP, token=TOKEN):
    """Prepare a group and copy all its rows; return the channel."""
    channel = await prepared(sites, group, token)
    while not (await channel.state(1)).is_copied:
        await channel.copy(token)
    return channel


async def abort(sites, group=GROUP, token=TOKEN):
    """Undo a move; return all that is left of it."""
    target = await sites.shard(group.target)
    await target.drop(group, token)
    await (await sites.channel(group)).uncapture(token)
    shards = [await sites.shard(shard) for shard in (group.source, group.target)]
    return [name for shard in shards for name in await shard.left_behind(group.move)]
