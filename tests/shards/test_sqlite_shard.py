"""A shard in a file: sizes are counted in short reads, a file closes once, and damage is told as damage."""

import asyncio
import sqlite3
from contextlib import closing

import pytest

import apportion
from apportion.errors import StoreUnavailable
from apportion.shards.place import DatabasePlace
from apportion.shards.sqlite import shard
from apportion.shards.sqlite.file import ShardFile
from apportion.shards.takeover.takeover import within
from tests.shards.sample import SET, Base, Files
from tests.shards.sqlite_pair import FilePair, opened


def test_sizes_are_counted_in_short_reads(tmp_path, monkeypatch):
    pair, reads, read = FilePair(tmp_path), [], ShardFile.read
    pair.sql("one", "INSERT INTO place (slot, id, visits) VALUES (16383, 'last', 1), (40, 'x', 2)", mask=True)

    async def noted(self, work):
        found = await read(self, work)
        reads.append(found)
        return found

    monkeypatch.setattr(ShardFile, "read", noted)
    monkeypatch.setattr(shard, "_FEW_SLOTS", 3)
    monkeypatch.setattr(shard.Portion, "took", lambda *_: None)

    async def sizes():
        async with opened(pair) as sites:
            return await (await sites.shard("one")).sizes()

    found = asyncio.run(sizes())
    counted = dict(
        pair.sql(
            "one", "SELECT slot, count(*) FROM (SELECT slot FROM place UNION ALL SELECT slot FROM photo) GROUP BY slot"
        )
    )
    assert counted == {slot: size.rows for slot, size in found.items()}
    assert {16383, 40} < counted.keys()
    assert all(size.bytes > size.rows for size in found.values())
    most = max(len(each[0]) for each in reads if isinstance(each, tuple) and isinstance(each[0], list))
    assert 3 == most
    assert len(reads) > 16384 // 3


def test_a_file_closes_once_though_a_close_is_cancelled(tmp_path):
    async def main():
        async with opened(FilePair(tmp_path)) as sites:
            file = (await sites.shard("one"))._file
            await file.read(lambda _: None)
            closing_task = asyncio.create_task(file.close())
            await asyncio.sleep(0)
            closing_task.cancel()
            await asyncio.gather(closing_task, return_exceptions=True)
            await file.close()
            assert file._thread._shutdown

    asyncio.run(main())


def test_a_damaged_file_is_no_database_without_a_shard(tmp_path):
    files = Files(tmp_path, shards=("one",))
    path = tmp_path / "one.db"
    with closing(sqlite3.connect(path)) as connection:
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'apportion_meta'").fetchall()
        [(size,)] = connection.execute("PRAGMA page_size").fetchall()
    data = bytearray(path.read_bytes())
    data[(page - 1) * size : page * size] = b"\xff" * size
    path.write_bytes(data)
    place = DatabasePlace(files.shards["one"].address())
    with (
        place.reader() as reader,
        pytest.raises(StoreUnavailable, match="shard one is unavailable: database disk image"),
    ):
        within(reader, "one", place.meta)
    with (
        apportion.sync.open_shards(files.url, SET, base=Base) as router,
        pytest.raises(Exception, match="database disk image is malformed"),
    ):
        router.session("FR").connection()
