"""Wrong arguments of a set of shards are told before anything is opened; a router ends with its block."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import create_engine, event

import apportion
from apportion.errors import CrossShard, InvalidInput, StoreClosed
from apportion.shards import admin
from tests.shards.sample import SET, Base, Files, Place


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"base": None}, "base"),
        ({"base": object}, "base"),
        ({"pool_size": 0}, "pool_size"),
        ({"session": "x"}, "session"),
        ({"create_engine": 3}, "create_engine"),
        ({"session": {"expire_on_comit": False}}, "session"),
        ({"session": {"autocommit": True}}, "session"),
        ({"session": {"class_": int}}, "session"),
        ({"session": {"bind": None}}, "session"),
        ({"session": {"twophase": True}}, "session"),
    ],
)
def test_a_wrong_option_is_told_before_anything_is_opened(options, field):
    with pytest.raises(InvalidInput, match=f"^{field} is"):
        apportion.sync.open_shards("sqlite:///absent.db", SET, **{"base": Base, **options})


def test_a_text_is_no_list_of_keys_and_work_is_a_function(tmp_path):
    files = Files(tmp_path, shards=("one",))
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        with pytest.raises(InvalidInput, match=r"^keys is 'FR'"):
            router.session(keys="FR")
        for keys in (None, 5):
            with pytest.raises(InvalidInput, match=r"^keys is"):
                router.session(keys=keys)
        with pytest.raises(InvalidInput, match=r"^work is"):
            router.run("FR", None)
    with pytest.raises(StoreClosed, match="it was closed"):
        router.session("FR").connection()


def test_an_engine_that_is_none_or_begins_transactions_itself_is_refused(tmp_path):
    def engine(url):
        made = create_engine(url)
        event.listen(made, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        return made

    files = Files(tmp_path, shards=("one",))
    for create, message in ((lambda _: None, "returns an engine"), (engine, "without a listener for the event begin")):
        with (
            apportion.sync.open_shards(files.url, SET, base=Base, create_engine=create) as router,
            pytest.raises(InvalidInput, match=f"^create_engine is .* {message}"),
        ):
            router.session("FR").connection()


def test_the_shards_of_a_new_set_are_a_mapping():
    with pytest.raises(InvalidInput, match=r"^shards is"):
        asyncio.run(admin.init("sqlite:///absent.db", SET, ["one"], base=Base))


@pytest.mark.parametrize(
    ("slot", "place"),
    [
        (5, "goes to slot 5"),
        ("any", "may reach any slot"),
        ("another", "goes to another slot"),
        (None, "has no slot on this shard"),
    ],
)
def test_a_row_of_another_shard_is_told_with_its_place(slot, place):
    assert f"{CrossShard('FR', slot, [7])}".startswith(f"'FR' {place}, and this session is pinned to slot 7.\nNothing")


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("sqlite://", "URL of shard new"),
        ("sqlite:///", "URL of shard new"),
        ("sqlite:///:memory:", "URL of shard new"),
        ("sqlite:///{folder}/new.db?timeout=30", "options in the URL of shard new"),
        ("sqlite:///${{FOLDER}}/new.db", "URL of shard new"),
    ],
)
def test_a_shard_is_a_file_and_its_url_has_no_options(tmp_path, url, field):
    """Each process opens the URL by itself, so rows in memory are not shared."""
    files = Files(tmp_path, shards=("one",))
    address = url.format(folder=tmp_path)
    for call, name in ((admin.add, SET), (admin.init, "other")):
        with pytest.raises(InvalidInput, match=f"^{field} is"):
            asyncio.run(call(files.url, name, {"new": address}, base=Base))
    assert ["control.db", "one.db"] == sorted(path.name for path in tmp_path.glob("*.db*") if "-" not in path.name)


@pytest.mark.parametrize("observer", [3, "log", lambda: None])
def test_an_observer_of_moves_is_a_function_of_one_event(observer):
    for call in (admin.apply, admin.abort, admin.clean):
        with pytest.raises(InvalidInput, match=r"^(parameters of )?observer is"):
            asyncio.run(call("sqlite:///absent.db", SET, observer=observer))


@pytest.mark.parametrize("written", ["my shop.db", "my%20shop.db"])
def test_a_blank_in_a_path_may_be_encoded_and_every_part_opens_the_same_file(tmp_path, written):
    """SQLAlchemy 2.0 decodes no path. It would open, and make, a file with a percent sign in its name."""
    files = Files(tmp_path, shards=("one",))
    with closing(sqlite3.connect(tmp_path / "my shop.db")) as connection:
        connection.execute("PRAGMA journal_mode = wal")  # so the file is there
    asyncio.run(admin.add(files.url, SET, {"two": f"sqlite:///{tmp_path}/{written}"}, base=Base))
    asyncio.run(admin.apply(files.url, SET, asyncio.run(admin.plan(files.url, SET, weights={"two": 1}))))
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        key = next(f"C{each}" for each in range(99) if router.shard(f"C{each}") == "two")
        router.run(key, lambda session: session.add(Place(country=key)))
    with closing(sqlite3.connect(tmp_path / "my shop.db")) as connection:
        assert [(key,)] == connection.execute("SELECT country FROM place").fetchall()
    assert [] == list(tmp_path.glob("*%*"))
