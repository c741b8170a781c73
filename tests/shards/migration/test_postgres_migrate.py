"""A migration of shards on PostgreSQL: real Alembic, an advisory lock, and the triggers and indexes made again."""

import asyncio

import pytest

from apportion.errors import StoreUnavailable
from apportion.shards import admin
from apportion.shards.place import DatabasePlace
from apportion.shards.postgres import server, table_lock
from apportion.shards.postgres.server import ServerPlace
from apportion.shards.postgres.shard import PostgresShard
from tests.shards.migration.scripts import Scripts, stamped
from tests.shards.migration.test_table_lock import GROUP, TOKEN
from tests.shards.sample import SET, Base
from tests.shards.server import OWNER, Servers, as_role

pytestmark = pytest.mark.live

DROPS = """
    op.add_column("place", sa.Column("mayor", sa.String()))
    op.execute("DROP TRIGGER apportion_update ON place")
    op.drop_index("visit_by_slot", "visit")
"""
OURS = """SELECT tgname || ' of ' || tgrelid::regclass FROM pg_trigger WHERE starts_with(tgname, 'apportion_')
    UNION ALL SELECT indexname FROM pg_indexes WHERE right(indexname, 8) = '_by_slot' ORDER BY 1"""


@pytest.fixture
def files(rig, tmp_path, monkeypatch):
    as_role(monkeypatch, OWNER)
    made = Servers(rig, tmp_path)
    yield stamped(made)
    made.drop()


def revisions(files):
    return [files.sql(shard, "SELECT version_num FROM alembic_version")[0][0] for shard in files.shards]


def test_each_shard_comes_to_the_head_and_has_its_triggers_and_index_again(files, tmp_path):
    scripts = Scripts(tmp_path)
    scripts.revision("0002", "0001", DROPS)
    before = {shard: files.sql(shard, OURS) for shard in files.shards}
    assert scripts.migrate(files).is_whole
    assert ["0002", "0002"] == revisions(files)
    assert before == {shard: files.sql(shard, OURS) for shard in files.shards}
    found = asyncio.run(admin.status(files.url, SET, has_rows=True))
    assert ["0002", "0002"] == [each.revision for each in found.shards]


def test_a_new_shard_has_the_revision_of_the_others(files):
    asyncio.run(admin.add(files.url, SET, {"three": files.place("three")}, base=Base))
    assert [("0001",)] == files.sql("three", "SELECT version_num FROM alembic_version")


def test_a_kill_in_the_middle_of_a_revision_undoes_it_and_the_same_call_goes_on(files, tmp_path):
    scripts = Scripts(tmp_path)
    mark = tmp_path / "mark"
    body = f'{DROPS}\n    if not os.path.exists({str(mark)!r}):\n        open({str(mark)!r}, "w").close()\n'
    scripts.revision("0002", "0001", f"{body}        os.kill(os.getpid(), signal.SIGKILL)")
    found = scripts.migrate(files)
    assert "the process of Alembic ended without an answer" == found.shards[0].error
    assert ["0001", "0001"] == revisions(files)
    assert scripts.migrate(files).is_whole
    assert ["0002", "0002"] == revisions(files)


def shard_of(files):
    record = files.shards["one"]
    return PostgresShard(ServerPlace(set_name=SET, shard="one", address=record.address()))


def test_a_mover_waits_for_a_migration_which_the_message_names(files, monkeypatch):
    monkeypatch.setattr(server, "LOCK_WAIT_SECONDS", 0.3)

    async def main():
        shard = shard_of(files)
        locked = DatabasePlace(files.shards["one"].address()).tables_locked("one")
        with locked, pytest.raises(StoreUnavailable, match=r"process \d+ of postgres"):
            await shard.guard(GROUP, TOKEN)
        await shard.guard(GROUP, TOKEN)
        await shard.close()

    asyncio.run(main())


def test_a_migration_waits_for_a_transaction_of_a_mover(files, monkeypatch):
    monkeypatch.setattr(table_lock, "LOCK_WAIT_SECONDS", 1)
    with files.connect("one") as mover:
        mover.execute(table_lock.SHARED)
        refused = pytest.raises(StoreUnavailable, match="a mover or another migration has worked on it for 1 s")
        with refused, DatabasePlace(files.shards["one"].address()).tables_locked("one"):
            pass


def test_an_index_is_made_concurrently_while_the_lock_is_held(files, tmp_path):
    scripts = Scripts(tmp_path)
    body = 'with op.get_context().autocommit_block():\n        op.create_index("by_visits", "place", ["visits"], '
    scripts.revision("0002", "0001", f"{body}postgresql_concurrently=True)")
    assert scripts.migrate(files).is_whole
    assert [("by_visits",)] == files.sql("one", "SELECT indexname FROM pg_indexes WHERE indexname = 'by_visits'")
