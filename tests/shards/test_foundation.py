"""Founding a set: it can be cut off and done again, and refuses whatever would make two sets of one."""

import asyncio
import re
import sqlite3
from contextlib import closing

import pytest

import apportion
from apportion.errors import ApportionError, BadSnapshot, InvalidInput, StoreUnavailable
from apportion.shards import admin
from apportion.shards.foundation import Founded, found
from apportion.shards.records import SetRecord, ShardRecord, check_shard_id
from tests.shards.sample import SET, SLOTS, Base, Files


def test_every_slot_has_one_owner_and_the_databases_agree_with_the_table(tmp_path):
    files = Files(tmp_path)
    rows = {shard: files.sql(shard, "SELECT slot FROM apportion_slot WHERE state = 'owner'") for shard in files.shards}
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        owners = router.table.owners
    assert owners == {slot: shard for shard, slots in rows.items() for (slot,) in slots}
    assert SLOTS == sum(map(len, rows.values()))


def test_a_founding_that_was_cut_off_is_finished_by_the_same_call(tmp_path, monkeypatch):
    made = []

    async def once(*words):
        made.append(words)
        if len(made) == 2:
            raise KeyboardInterrupt
        await prepare(*words)

    prepare = Founded.prepare
    monkeypatch.setattr(Founded, "prepare", once)
    with pytest.raises(KeyboardInterrupt):
        Files(tmp_path)
    files = Files(tmp_path)
    again = Files(tmp_path)
    assert files.sql("two", "SELECT * FROM apportion_meta") == again.sql("two", "SELECT * FROM apportion_meta")
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        assert 1 == router.version.number


def test_a_founding_that_was_cut_off_takes_another_url_for_a_shard_until_its_table_is_there(tmp_path, monkeypatch):
    made = []

    async def once(*words):
        made.append(words)
        if len(made) == 2:
            raise StoreUnavailable("shard two", "it is away")
        await prepare(*words)

    prepare = Founded.prepare
    monkeypatch.setattr(Founded, "prepare", once)
    with pytest.raises(StoreUnavailable):
        Files(tmp_path)
    shards = {
        shard: ShardRecord(url=f"sqlite:///{tmp_path}/{file}.db") for shard, file in (("one", "one"), ("two", "b"))
    }
    url = f"sqlite:///{tmp_path}/control.db"
    begun = f"begun by an earlier call, with shards one, two and {SLOTS} slots"
    for others, slots in ((shards, 128), ({"one": shards["one"]}, SLOTS)):
        with pytest.raises(InvalidInput, match=begun) as refused:
            asyncio.run(found(url, SET, others, Base, slots))
        assert "Name the same shards and slots to finish it" in refused.value.hint
    asyncio.run(found(url, SET, shards, Base, SLOTS))
    with apportion.sync.open_shards(url, SET, base=Base) as router:
        keys = {router.shard(key): key for key in map(str, range(99))}
        for key in keys.values():
            with router.session(key) as session:
                session.connection()
    assert {"one", "two"} == keys.keys()
    others = {**shards, "two": ShardRecord(url=f"sqlite:///{tmp_path}/c.db")}
    with pytest.raises(InvalidInput, match="there already"):
        asyncio.run(found(url, SET, others, Base, SLOTS))


@pytest.mark.parametrize("second", ["one.db", "link.db", "hard.db", "d/../one.db", "control.db"])
def test_a_file_of_two_shards_or_of_the_control_store_is_refused_before_the_first_write(tmp_path, second):
    (tmp_path / "d").mkdir()
    (tmp_path / "link.db").symlink_to("one.db")
    if second == "hard.db":
        (tmp_path / "one.db").touch()
        (tmp_path / "hard.db").hardlink_to(tmp_path / "one.db")
    url = f"sqlite:///{tmp_path}/control.db"
    shards = {
        shard: ShardRecord(url=f"sqlite:///{tmp_path}/{file}") for shard, file in (("one", "one.db"), ("two", second))
    }
    expected = "the control store" if second == "control.db" else "shard one"
    with pytest.raises(InvalidInput, match=f"expected another one than that of {expected}"):
        asyncio.run(found(url, SET, shards, Base, SLOTS))
    assert not (tmp_path / "control.db").exists()
    files = Files(tmp_path)
    with pytest.raises(InvalidInput, match=f"expected another one than that of {expected}"):
        asyncio.run(admin.add(url, SET, {"three": f"sqlite:///{tmp_path}/{second}"}, base=Base))
    assert files.url == url


def test_a_founding_that_is_made_again_leaves_a_table_that_changed_meanwhile(tmp_path):
    files = Files(tmp_path)
    version = files.publish(0, "two")
    Files(tmp_path)
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        assert version == router.version


@pytest.mark.parametrize(
    ("shards", "slots"), [(("one", "three"), SLOTS), (("one",), SLOTS), (("one", "two", "three"), SLOTS), (None, 128)]
)
def test_another_set_of_the_same_name_is_refused(tmp_path, shards, slots):
    files = Files(tmp_path)
    others = {shard: ShardRecord(url=f"sqlite:///{tmp_path}/{shard}.db") for shard in shards or files.shards}
    with pytest.raises(InvalidInput, match="there already, with shards"):
        asyncio.run(found(files.url, SET, others, Base, slots))


def test_a_database_of_another_set_is_refused(tmp_path):
    files = Files(tmp_path)
    with pytest.raises(InvalidInput, match="set_id of shard one is 'world', expected moon"):
        asyncio.run(found(files.url, "moon", files.shards, Base, SLOTS))


def test_a_generated_slot_is_refused_before_anything_is_made(tmp_path):
    place = (
        "CREATE TABLE place (id CHAR(32) PRIMARY KEY, country VARCHAR NOT NULL, visits INTEGER NOT NULL, slot SMALLINT"
    )
    shards = {shard: ShardRecord(url=f"sqlite:///{tmp_path}/{shard}.db") for shard in ("one", "two")}
    with closing(sqlite3.connect(tmp_path / "two.db")) as file:
        file.execute(f"{place} GENERATED ALWAYS AS (3))")
        for _ in range(2):
            with pytest.raises(InvalidInput, match="table place is 'slot is a generated column', expected a plain"):
                asyncio.run(found(f"sqlite:///{tmp_path}/control.db", SET, shards, Base, SLOTS))
        assert [("place",)] == file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    assert not (tmp_path / "one.db").exists()


def test_a_relative_path_means_the_same_file_from_every_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asyncio.run(found("sqlite:///control.db", SET, {"one": ShardRecord(url="sqlite:///one.db")}, Base, SLOTS))
    monkeypatch.chdir("/")
    with (
        apportion.sync.open_shards(f"sqlite:///{tmp_path}/control.db", SET, base=Base) as router,
        router.session("FR") as session,
    ):
        session.connection()
    assert (tmp_path / "one.db").exists()


@pytest.mark.parametrize("url", ["postgresql://ann:secret@host/db", "postgresql+psycopg://ann:se%40t@host/db"])
def test_a_password_in_a_url_is_refused_and_not_echoed(url):
    with pytest.raises(InvalidInput) as refused:
        ShardRecord(url=url)
    assert not {"secret", "se%40t"} & {*re.split(r"[:/@ ]", str(refused.value))}


def test_a_name_in_a_url_is_filled_from_the_environment(monkeypatch):
    record = ShardRecord(url="postgresql://ann:${SHARD_PASSWORD}@host/db")
    with pytest.raises(InvalidInput, match="environment variable SHARD_PASSWORD"):
        record.address()
    monkeypatch.setenv("SHARD_PASSWORD", "p4ss")
    assert "postgresql://ann:p4ss@host/db" == record.address()


@pytest.mark.parametrize("shard", ["", "a b", "a'b", 'a"b', "a\nb", "a/b", "x" * 64, "-a", "é"])
def test_a_shard_has_a_plain_short_name(shard):
    with pytest.raises(InvalidInput):
        check_shard_id(shard)


@pytest.mark.parametrize("kind", [SetRecord, ShardRecord])
@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"\xff", b'{"format":2}', b'{"format":1}', b'{"format":1,"slots":64}']
)
def test_a_record_that_another_hand_wrote_is_refused(kind, data):
    with pytest.raises(BadSnapshot):
        kind.decode(data)


def test_records_are_read_as_they_were_written():
    for record in (SetRecord(hash_slots=64), ShardRecord(url="sqlite:////a.db", weight=2.5, zone=("eu", "a"))):
        assert record == type(record).decode(record.encode())


def test_a_set_needs_a_shard_and_models(tmp_path):
    with pytest.raises(ApportionError, match="at least one shard"):
        asyncio.run(found(f"sqlite:///{tmp_path}/control.db", SET, {}, Base))
