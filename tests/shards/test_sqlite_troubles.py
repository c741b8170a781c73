"""Troubles of a move between SQLite files: each is a typed error, leaves nothing half done, and an abort undoes it."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from apportion.errors import BadSnapshot, InvalidInput, SchemaDiffers, StoreUnavailable, Unequal, UnknownOption
from apportion.shards.move_group import ROW_CHANGES, MoveGroup
from apportion.shards.sqlite import file as shard_file
from apportion.shards.sqlite.file import ShardFile, ShardPath
from apportion.shards.sqlite.shard import SqliteShard
from apportion.shards.sqlite.sites import SqliteSites
from tests.shards.sqlite_pair import GROUP, TOKEN, FilePair, abort, copied, opened, prepared


def run(test, pair):
    """Run a test with the open shards of a pair; abort the move at the end, and find nothing left of it."""

    async def main():
        async with opened(pair) as sites:
            await test(sites)
            assert [] == await abort(sites)

    before = pair.rows("one")
    asyncio.run(main())
    assert (before, [[], [], []]) == (pair.rows("one"), pair.rows("two"))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ALTER TABLE place ADD COLUMN extra INTEGER", "place.extra is INTEGER in shard one and absent in shard two"),
        ("ALTER TABLE place DROP COLUMN note", "place.note is absent in shard one and BLOB in shard two"),
        ("CREATE UNIQUE INDEX by_visits ON place (visits)", "unique index of place is .*visits.* in shard one"),
        (
            "DROP TRIGGER apportion_photo_insert",
            "photo is no sharded table in shard one and a sharded table in shard two",
        ),
    ],
)
def test_unequal_schemas_are_refused_at_any_moment(tmp_path, statement, message):
    pair = FilePair(tmp_path)

    async def early(sites):
        with pytest.raises(SchemaDiffers, match=message):
            await prepared(sites)

    async def late(sites):
        channel = await copied(sites)
        pair.sql("one", "UPDATE place SET country = 'DE' WHERE slot = 3", statement)
        for act in (channel.apply(TOKEN), channel.verify(1, TOKEN)):
            with pytest.raises(SchemaDiffers, match=message):
                await act

    asyncio.run(_with(pair, late))
    FilePair(tmp_path).sql("one", statement)
    asyncio.run(_with(pair, early))


def test_a_move_goes_on_when_both_shards_have_the_new_column(tmp_path):
    pair = FilePair(tmp_path)
    column = "ALTER TABLE place ADD COLUMN extra INTEGER DEFAULT 5"

    async def main():
        async with opened(pair) as sites:
            channel = await copied(sites)
            pair.sql("one", column, "UPDATE place SET extra = 7 WHERE id = 'p3'")
            with pytest.raises(SchemaDiffers):
                await channel.apply(TOKEN)
            pair.sql("two", column)
            await channel.apply(TOKEN)
            await channel.verify(1, TOKEN)

    asyncio.run(main())
    assert pair.rows("one") == pair.rows("two")


async def _with(pair, test):
    async with opened(pair) as sites:
        await test(sites)
        assert [] == await abort(sites)


def test_a_table_that_was_made_anew_has_lost_its_log(tmp_path):
    pair = FilePair(tmp_path)
    anew = (
        "DROP TRIGGER apportion_place_logged_new",
        "INSERT INTO place VALUES (3, 'not logged', 'FR', 1, 2)",
    )

    async def test(sites):
        channel = await copied(sites)
        await channel.verify(1, TOKEN)
        pair.sql("one", *anew)
        state = await channel.state(1)
        assert (False, False) == (state.is_captured, state.is_verified)
        with pytest.raises(Unequal, match="lost triggers: place"):
            await channel.verify(1, TOKEN)
        pair.sql("one", "DELETE FROM place WHERE id = 'not logged'")

    run(test, pair)


@pytest.mark.parametrize(
    ("statement", "shard", "error", "message"),
    [
        ("DELETE FROM apportion_capture WHERE slot = 4", "one", Unequal, "has lost slots on shard one.*: slot 4"),
        ("UPDATE apportion_capture SET move = 'other'", "one", Unequal, "has lost slots"),
        (
            "UPDATE apportion_move SET rows = 'x'",
            "two",
            BadSnapshot,
            "progress of move it's 1 in table .*, expected integers",
        ),
        ("UPDATE apportion_move SET slot = x'00'", "two", BadSnapshot, "expected integers"),
    ],
)
def test_a_damaged_log_or_progress_ends_a_comparison(tmp_path, statement, shard, error, message):
    pair = FilePair(tmp_path)

    async def main():
        async with opened(pair) as sites:
            channel = await copied(sites)
            await channel.verify(1, TOKEN)
            pair.sql(shard, statement)
            with pytest.raises(error, match=message):
                await channel.verify(1, TOKEN)

    asyncio.run(main())


@pytest.mark.parametrize("shard", ["one", "two"])
def test_files_of_other_encodings_are_refused(tmp_path, shard):
    pair = FilePair(tmp_path, rows=0)
    pair.make(shard, encoding="UTF-16le")

    async def test(sites):
        with pytest.raises(SchemaDiffers, match="UTF-16"):
            await (await sites.channel(GROUP)).state(1)

    async def main():
        async with opened(pair) as sites:
            await test(sites)

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_full_disk_of_the_target_is_told_and_leaves_nothing_half_done(tmp_path, monkeypatch, mode):
    pair = FilePair(tmp_path, rows=2_000, mode=mode)
    opening = ShardFile._open

    def full(self):
        connection = opening(self)
        if self.place.shard == "two":
            [(pages,)] = connection.execute("PRAGMA main.page_count").fetchall()
            connection.execute(f"PRAGMA max_page_count = {pages + 4}")
        return connection

    async def test(sites):
        monkeypatch.setattr(ShardFile, "_open", full)
        channel = await prepared(sites)
        with pytest.raises(StoreUnavailable, match="shard two is unavailable: its disk is full"):
            await copied(sites)
        state = await channel.state(1)
        assert state.copied == sum(map(len, pair.rows("two")))
        pair.sql("one", "UPDATE place SET visits = 1 WHERE slot = 3", "UPDATE place SET visits = 3 WHERE id = 'p3'")
        monkeypatch.undo()

    async def main():
        async with opened(pair) as sites:
            await test(sites)
        async with opened(pair) as sites:  # there is room again
            await (await copied(sites)).apply(TOKEN)
            assert pair.rows("one") == pair.rows("two")

    asyncio.run(main())


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    place = ShardPath(set_name="world", shard="one", path=tmp_path / "one.db")

    async def main():
        shard = SqliteShard(place)
        with pytest.raises(StoreUnavailable, match="shard one is unavailable"):
            await shard.rows(GROUP)
        await shard.close()

    asyncio.run(main())
    assert [] == list(tmp_path.iterdir())


def test_a_file_of_another_shard_is_refused(tmp_path):
    pair = FilePair(tmp_path, rows=0)

    async def main():
        sites = SqliteSites("world", {"one": pair.paths["one"], "two": pair.paths["one"]})
        with pytest.raises(InvalidInput, match="shard one of set world', expected shard two of set world"):
            await (await sites.shard("two")).rows(GROUP)
        with pytest.raises(InvalidInput):
            await (await sites.channel(GROUP)).state(1)
        with pytest.raises(UnknownOption, match="'three'"):
            await sites.shard("three")
        await sites.close()

    asyncio.run(main())


@pytest.mark.parametrize("shard", ["one", "two"])
def test_a_file_that_was_replaced_takes_no_write_and_the_next_call_opens_the_new_one(tmp_path, shard):
    pair = FilePair(tmp_path, mode="delete")

    async def test(sites):
        channel = await prepared(sites)
        channel._chunks._portion.rows = 1
        await channel.copy(TOKEN)
        await channel.copy(TOKEN)
        path = pair.paths[shard]
        shutil.copy(path, tmp_path / "copy.db")
        path.rename(tmp_path / "old.db")
        for message in (f"a file was replaced or removed: .*{shard}.db", "unable to open"):
            with pytest.raises(StoreUnavailable, match=message):
                await channel.copy(TOKEN)
        (tmp_path / "copy.db").rename(path)
        second = channel._source if shard == "one" else (await sites.shard("two"))._file
        with pytest.raises(StoreUnavailable, match="a file was replaced"):
            await second.read(lambda _: None)
        while not (await channel.state(1)).is_copied:
            await channel.copy(TOKEN)
        assert pair.rows("one") == pair.rows("two")

    asyncio.run(_with(pair, test))


def test_a_chunk_is_read_again_after_an_error_of_the_disk(tmp_path):
    pair = FilePair(tmp_path)

    async def test(sites):
        channel = await prepared(sites)
        channel._chunks._portion.rows = 1
        await channel.copy(TOKEN)
        await channel.copy(TOKEN)
        channel._target._let_go()
        while not (await channel.state(1)).is_copied:
            await channel.copy(TOKEN)
        assert pair.rows("one") == pair.rows("two")

    asyncio.run(_with(pair, test))


@pytest.mark.parametrize("shard", ["one", "two"])
def test_a_foreign_key_from_outside_of_the_set_is_refused(tmp_path, shard):
    """After the move, `clean` deletes the rows that it names."""
    pair = FilePair(tmp_path)
    pair.sql(shard, "CREATE TABLE tagged (place_id TEXT REFERENCES Place (id), tag TEXT)")

    async def test(sites):
        with pytest.raises(InvalidInput, match=f"table tagged in shard {shard} is 'a foreign key to Place'"):
            await prepared(sites)

    asyncio.run(_with(pair, test))


def test_a_file_that_is_no_database_or_no_shard_is_refused(tmp_path):
    for name, error in (("text.db", StoreUnavailable), ("empty.db", InvalidInput)):
        path = Path(tmp_path / name)
        path.write_bytes(b"text " * 1_000 if name == "text.db" else b"")

        async def main(path=path, error=error):
            shard = SqliteShard(ShardPath(set_name="world", shard="one", path=path))
            with pytest.raises(error):
                await shard.rows(GROUP)
            await shard.close()

        asyncio.run(main())


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_lock_that_is_held_too_long_is_told_and_nothing_is_written(tmp_path, monkeypatch, mode):
    monkeypatch.setattr(shard_file, "LOCK_WAIT_SECONDS", 0.05)
    pair = FilePair(tmp_path, mode=mode)

    async def test(sites):
        channel, source = await copied(sites), await sites.shard("one")
        with closing(sqlite3.connect(pair.paths["one"], isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match=r"shard one is unavailable: others held the lock of .*one\.db"):
                await source.change(GROUP, ROW_CHANGES["fence"], TOKEN)
        assert {"owner"} == {row.state for row in await source.rows(GROUP)}
        await channel.apply(TOKEN)

    run(test, pair)


def test_a_mover_waits_for_a_short_lock(tmp_path):
    pair = FilePair(tmp_path)

    async def test(sites):
        source = await sites.shard("one")
        with closing(sqlite3.connect(pair.paths["one"], isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            fence = asyncio.create_task(source.change(GROUP, ROW_CHANGES["fence"], TOKEN))
            await asyncio.sleep(0.05)
            assert not fence.done()
            other.execute("COMMIT")
            await fence
        assert {"fenced"} == {row.state for row in await source.rows(GROUP)}

    run(test, pair)


@pytest.mark.parametrize("slots", [(), (1, 1), (2, 1), tuple(range(257))])
def test_a_group_has_some_slots_each_once(slots):
    with pytest.raises(InvalidInput, match="1 to 256 slots, ascending, each once"):
        MoveGroup(move="m", source="one", target="two", slots=slots)
