"""The doctor of a set finds each planted fault, names the shard, and writes nothing."""

import asyncio

import pytest

from apportion.errors import InvalidInput
from apportion.shards import admin
from apportion.shards.records import SetKeys, ShardRecord
from apportion.stores import api
from apportion.stores.catalog import connect
from tests.shards.sample import SET, SLOTS, Base, Files


def ill(files, *, is_whole=False, base=Base):
    found = asyncio.run(admin.doctor(files.url, SET, base=base, is_whole=is_whole))
    return [(each.subject, each.verdict, each.found) for each in found if each.verdict != "ok"]


def test_a_set_that_is_well_has_no_fault(tmp_path):
    files = Files(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.db")}
    assert [] == ill(files)
    assert [] == ill(files, base=None)
    assert before == {path.name: path.read_bytes() for path in tmp_path.glob("*.db")}


@pytest.mark.parametrize(
    ("shard", "statement", "said"),
    [
        ("one", "UPDATE apportion_meta SET shard = 'two'", "shard of shard one is 'two', expected one"),
        ("two", "DROP TABLE apportion_meta", "database of shard two is 'no shard of a set'"),
        ("one", "UPDATE apportion_slot SET state = 'moved' WHERE slot = 3", "not owned where the table says: 3"),
        ("one", "DELETE FROM apportion_slot WHERE slot IN (3, 5)", "not owned where the table says: 3, 5"),
        ("two", "INSERT INTO apportion_slot (slot, state) VALUES (3, 'owner')", "two owners of 3"),
        ("one", "UPDATE apportion_slot SET state = 'fenced' WHERE slot = 3", "a switch of 3"),
        ("two", "INSERT INTO apportion_mover VALUES ('left')", "switched off by 1 rows in apportion_mover"),
        ("two", "INSERT INTO apportion_slot (slot, state) VALUES (99999, 'owner')", "unknown to the table: 99999"),
        ("one", "DROP TRIGGER apportion_photo_slot", "absent: apportion_photo_slot"),
        ("two", "ALTER TABLE place ADD COLUMN height INTEGER", "place.height is absent in one"),
        ("two", "CREATE UNIQUE INDEX once ON place (country)", "place is not unique over country in one"),
        (
            "one",
            "UPDATE apportion_slot SET life = 9000000000000, number = 7 WHERE slot = 3",
            "the shard knows version 9000000000000:7, the table is",
        ),
    ],
)
def test_a_planted_fault_is_found(tmp_path, shard, statement, said):
    files = Files(tmp_path)
    files.sql(shard, statement)
    (fault,) = [found for _, _, found in ill(files) if not found.startswith("not compared")]
    assert fault.startswith(said)


def test_an_announced_version_of_a_switch_is_not_ahead(tmp_path):
    files = Files(tmp_path)
    files.state("two", 3, "incoming", number=2, life=9_000_000_000_000)
    assert [] == ill(files)


def test_a_row_with_a_wrong_slot_is_found_by_the_whole_look(tmp_path):
    files = Files(tmp_path)
    files.sql("one", "INSERT INTO apportion_mover VALUES ('me')")
    files.sql("one", "INSERT INTO place (id, country, visits, slot) VALUES (hex(zeroblob(16)), 'FR', 0, 400)")
    files.sql("one", "DELETE FROM apportion_mover")
    assert [] == ill(files), "the slot 400 is in no sample"
    ((subject, verdict, found),) = ill(files, is_whole=True)
    assert ("rows of one", "error") == (subject, verdict)
    assert found.startswith("1 with a wrong slot: place (")


def test_a_file_that_is_gone_and_a_relative_path_are_found(tmp_path):
    files = Files(tmp_path)
    (tmp_path / "two.db").unlink()

    async def made_relative():
        store, key = await connect(files.url), SetKeys(SET).shard("one")
        (known,) = (await store.scan(key)).items
        when = [api.Unchanged(key=key, revision=known.revision)]
        await store.commit(when=when, puts=[api.Put(key=key, value=ShardRecord(url="sqlite:///one.db").encode())])
        await store.close()

    asyncio.run(made_relative())
    found = [said for _, _, said in ill(files)]
    assert "a relative path: sqlite:///one.db" in found
    assert f"no file at {tmp_path}/two.db" in found
    assert not (tmp_path / "two.db").exists()


def test_a_set_that_is_not_there_is_an_error(tmp_path):
    files = Files(tmp_path)
    with pytest.raises(InvalidInput, match=r"^set is 'moon'"):
        asyncio.run(admin.doctor(files.url, "moon"))
    assert SLOTS == sum(each.slots for each in asyncio.run(admin.status(files.url, SET)).shards)


@pytest.mark.parametrize("key", [SetKeys(SET).moving, SetKeys(SET).move("a-000")])
def test_a_damaged_record_of_moves_is_told_by_status_and_by_the_doctor(tmp_path, key):
    files = Files(tmp_path)

    async def damaged():
        store = await connect(files.url)
        try:
            await store.commit(when=[api.Absent(key=key)], puts=[api.Put(key=key, value=b"{")])
        finally:
            await store.close()

    asyncio.run(damaged())
    (said,) = asyncio.run(admin.status(files.url, SET)).damaged
    assert said.startswith(f"record {key}: ")
    assert said in [found for _, verdict, found in ill(files) if verdict == "error"]
