"""The records of moves and migrations exclude each other, whichever commit comes first."""

import asyncio
import sys

import pytest

from apportion.errors import BadSnapshot, Conflict
from apportion.runtime.clock import SystemClock
from apportion.shards.migration.record import MigrationRecord, ShardMigration
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.book import MoveBook
from apportion.shards.mover.records import MoveEntry
from apportion.shards.records import SetKeys
from apportion.stores import api
from apportion.stores.catalog import connect
from tests.shards.migration.scripts import Scripts, stamped
from tests.shards.sample import SET, Files

ENTRY = MoveEntry.begun(MoveGroup(move="m1", source="one", target="two", slots=(1,)), 0.0, is_reversible=False)
RECORD = MigrationRecord(target="0002", shards={"one": ShardMigration(id="one", revision="0001", error="x" * 600)})


def test_a_record_comes_back_from_its_bytes_with_a_cut_error():
    found = MigrationRecord.decode(RECORD.encode())
    assert ("0002", "pending", "0001", 500) == (
        found.target,
        found.shards["one"].state,
        found.shards["one"].revision,
        len(found.shards["one"].error),
    )


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("pending", "lost", "expected one of pending, running"),
        ('"target":"0002"', '"target":2', "field target"),
        ("target", "x", "x"),
    ],
)
def test_a_damaged_record_is_named(old, new, field):
    with pytest.raises(BadSnapshot, match=field):
        MigrationRecord.decode(RECORD.encode().replace(old.encode(), new.encode()))


def test_a_move_that_meets_a_migration_in_its_commit_does_not_begin(tmp_path):
    files = Files(tmp_path)

    async def main():
        store = await connect(files.url)
        book = MoveBook(store, SET, SystemClock())
        commit = book._commit

        async def late(when, puts, deletes=None):
            key = SetKeys(SET).migration
            await store.commit(when=[api.Absent(key=key)], puts=[api.Put(key=key, value=RECORD.encode())])
            return await commit(when, puts, deletes)

        book._commit = late
        try:
            assert not await book.begin(ENTRY)
            with pytest.raises(Conflict, match="the migration of set world to 0002 has not ended"):
                await book.begin(ENTRY)
            assert {} == (await book.read()).kept
        finally:
            await store.close()

    asyncio.run(main())


def test_a_migration_that_meets_a_move_in_its_commit_does_not_begin(tmp_path, monkeypatch):
    files, scripts = stamped(Files(tmp_path)), Scripts(tmp_path)
    scripts.revision("0002", "0001")
    modules = [sys.modules[f"apportion.shards.admin.migration.{each}"] for each in ("migrate", "run")]
    idle, calls = modules[0].idle, []

    async def late(followed):
        found = await idle(followed)
        calls.append(followed)
        if len(calls) == 2:
            assert await MoveBook(followed.store, SET, SystemClock()).begin(ENTRY)
        return found

    for module in modules:
        monkeypatch.setattr(module, "idle", late)
    with pytest.raises(Conflict, match="a move or another migration began meanwhile"):
        scripts.migrate(files)
    assert [("0001",)] == files.sql("one", "SELECT version_num FROM alembic_version")
