"""Founding on PostgreSQL: all or nothing in each database, beside a control store, and for tables of any name."""

import asyncio
import json
from types import SimpleNamespace
from urllib.parse import quote

import psycopg
import pytest
from sqlalchemy import MetaData, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import apportion
from apportion.errors import InvalidInput, MissingExtra
from apportion.shards import Sharded, dialects
from apportion.shards.foundation import found
from apportion.shards.meta import ShardMeta
from apportion.shards.models import tables_of
from apportion.shards.postgres.fence import PostgresFence
from apportion.shards.records import ShardRecord
from tests.console.running import run
from tests.shards.moved_slots import FR, write
from tests.shards.sample import SET, SLOTS, Base
from tests.shards.server import OWNER, as_role
from tests.stores.rigs.postgres import SECRET, USER


class Odd(DeclarativeBase):
    metadata = MetaData(schema='Sh"op')


class Thing(Sharded, Odd):
    __tablename__ = 'thing"; DROP %s; --\n'
    __shard_key__ = "name"
    name: Mapped[str] = mapped_column(primary_key=True)


class Moon(DeclarativeBase):
    pass


class Crater(Sharded, Moon):
    __tablename__ = "crater"
    __shard_key__ = "name"
    name: Mapped[str] = mapped_column(primary_key=True)


@pytest.fixture(scope="module")
def files(make_set):
    return make_set("postgresql")


@pytest.fixture
def founded(files, monkeypatch):
    """Return a function that founds a set on the databases, as their owner."""
    as_role(monkeypatch, OWNER)

    def again(name=SET, *, url=files.url, shards=None, base=Base, slots=SLOTS):
        asyncio.run(found(url, name, files.shards if shards is None else shards, base, slots))

    return again


@pytest.mark.live
def test_every_slot_has_one_owner_and_a_second_founding_changes_nothing(files, founded):
    rows = [files.sql(shard, "SELECT xmin::text, * FROM apportion.slot ORDER BY slot") for shard in files.shards]
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        owners = router.table.owners
    assert owners == {slot: shard for shard, each in zip(files.shards, rows, strict=True) for _, slot, *_ in each}
    founded()
    assert rows == [
        files.sql(shard, "SELECT xmin::text, * FROM apportion.slot ORDER BY slot") for shard in files.shards
    ]


@pytest.mark.live
def test_a_database_of_another_set_is_refused_and_keeps_what_it_has(files, founded, tmp_path):
    with pytest.raises(InvalidInput, match="set_id of shard one is 'world', expected moon"):
        founded("moon", base=Moon)
    assert [(None,)] == files.sql("one", "SELECT to_regclass('crater')")
    swapped = {"one": files.shards["two"], "two": files.shards["one"]}
    with pytest.raises(InvalidInput, match="shard of shard one is 'two'"):
        founded(SET, url=f"sqlite:///{tmp_path}/other.db", shards=swapped)
    with pytest.raises(InvalidInput, match="slots of shard one is 64"):
        founded(SET, url=f"sqlite:///{tmp_path}/wide.db", slots=128)


@pytest.mark.live
def test_one_database_is_control_store_and_shard(make_set, monkeypatch):
    made = make_set("postgresql", shards=("one",))
    as_role(monkeypatch, OWNER)
    host, port = made.rig.address()
    url = f"postgresql://{OWNER}:{quote(SECRET, safe='')}@{host}:{port}/{made.name('one')}"
    with apportion.sync.open_store(url) as store:
        store.scan("")
    asyncio.run(found(url, SET, made.shards, Base, SLOTS))
    as_role(monkeypatch, USER)
    with apportion.sync.open_shards(url, SET, base=Base) as router, router.session(FR) as session:
        write(session)
    assert [(1,)] == made.sql("one", "SELECT visits FROM place")


@pytest.mark.live
def test_names_of_tables_and_schemas_may_need_quotes(make_set):
    made = make_set("postgresql", shards=("one",))
    made.sql("one", 'CREATE SCHEMA "Sh""op"')
    host, port = made.rig.address()
    engine = create_engine(f"postgresql+psycopg://{OWNER}:{quote(SECRET, safe='')}@{host}:{port}/{made.name('one')}")
    meta = ShardMeta(set_id=SET, shard="one", slots=SLOTS, hasher="xxh3-64", format=1)
    with engine.begin() as connection:
        Odd.metadata.create_all(connection)
        PostgresFence().found(connection, meta, tables_of(Odd), ())
    engine.dispose()
    made.state("one", 5, "moved")
    name = engine.dialect.identifier_preparer.format_table(Thing.__table__)
    with pytest.raises(psycopg.Error, match="stale route"):
        made.sql("one", f"INSERT INTO {name} (name, slot) VALUES ('x', ?)", (5,))


@pytest.mark.live
def test_a_role_without_rights_cannot_found_and_leaves_nothing(make_set, monkeypatch, tmp_path):
    made = make_set("postgresql", shards=("one",))
    made.sql("one", "DROP SCHEMA apportion CASCADE")
    as_role(monkeypatch, USER)
    with pytest.raises(Exception, match="permission denied"):
        asyncio.run(found(f"sqlite:///{tmp_path}/control.db", SET, made.shards, Base, SLOTS))
    assert [] == made.sql("one", "SELECT 1 FROM pg_namespace WHERE nspname = 'apportion'")


@pytest.mark.live
def test_a_generated_slot_is_refused_before_anything_is_made(make_set, monkeypatch, tmp_path):
    made = make_set("postgresql", shards=("one",))
    as_role(monkeypatch, OWNER)
    shards = {"two": ShardRecord(url=made.place("two"))}
    made.sql("two", "CREATE TABLE crater (name varchar PRIMARY KEY, slot smallint GENERATED ALWAYS AS (3) STORED)")
    with pytest.raises(InvalidInput, match="table crater is 'slot is a generated column', expected a plain"):
        asyncio.run(found(f"sqlite:///{tmp_path}/control.db", SET, shards, Moon, SLOTS))
    assert [] == made.sql("two", "SELECT 1 FROM pg_namespace WHERE nspname = 'apportion'")


@pytest.mark.live
def test_one_database_under_two_names_of_its_host_is_refused_before_anything_is_made(make_set, monkeypatch, tmp_path):
    made, control = make_set("postgresql", shards=("one",)), f"sqlite:///{tmp_path}/control.db"
    as_role(monkeypatch, OWNER)
    url = made.place("two")
    shards = {"a": ShardRecord(url=url), "b": ShardRecord(url=url.replace("127.0.0.1", "localhost"))}
    said = f"database of shard b is '{made.name('two')}', expected another one than that of shard a"
    with pytest.raises(InvalidInput, match=said) as refused:
        asyncio.run(found(control, SET, shards, Base, SLOTS))
    assert "Nothing was written." in refused.value.hint
    assert [] == made.sql("two", "SELECT 1 FROM pg_namespace WHERE nspname = 'apportion'")
    asyncio.run(found(control, SET, {"c": shards["b"]}, Base, SLOTS))


def test_an_old_server_is_refused():
    connection = SimpleNamespace(dialect=SimpleNamespace(server_version_info=(13, 4)))
    meta = ShardMeta(set_id=SET, shard="one", slots=SLOTS, hasher="xxh3-64", format=1)
    with pytest.raises(InvalidInput, match=r"'13\.4', expected 14 or newer"):
        PostgresFence().found(connection, meta, (), ())


def test_a_missing_driver_names_the_extra(monkeypatch):
    monkeypatch.setattr(dialects, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="postgres"):
        dialects.address_of("postgresql://h/db", {"postgresql": "psycopg"})


def test_a_literal_password_is_refused_in_each_form_of_url():
    for url in ("postgresql://a:b@h/db", "postgresql+asyncpg://a:b@h/db", "postgresql://h/db?password=b"):
        with pytest.raises(InvalidInput, match="one without a password"):
            ShardRecord(url=url)
    ShardRecord(url="postgresql://h/db?user=a&password=${B}")


MODELS = """
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from apportion import shards

class Base(DeclarativeBase):
    pass

class Star(shards.Sharded, Base):
    __tablename__ = "star"
    __shard_key__ = "name"
    name: Mapped[str] = mapped_column(primary_key=True)
"""


@pytest.mark.live
def test_the_commands_make_a_set_and_show_no_password(make_set, monkeypatch, tmp_path):
    made = make_set("postgresql", shards=("one",))
    made.sql("one", "DROP SCHEMA apportion CASCADE")
    as_role(monkeypatch, OWNER)
    (tmp_path / "stars.py").write_text(MODELS)
    init = ("shards", "init", "sqlite:///c.db", "stars", "--shard", f"one={made.shards['one'].url}", "--models")
    done = run(*init, "stars:Base", "--slots", "64", folder=tmp_path)
    assert b"1 shard, 64 slots" in done.stdout
    shown = run("shards", "status", "sqlite:///c.db", "stars", "--json", folder=tmp_path).stdout
    assert made.shards["one"].url == json.loads(shown)["shards"][0]["url"]
    refused = run(
        *init[:5], f"one=postgresql://a:{quote(SECRET, safe='')}@h/d", "--models", "stars:Base", folder=tmp_path
    )
    assert (1, False) == (refused.returncode, quote(SECRET, safe="").encode() in refused.stdout + refused.stderr)
