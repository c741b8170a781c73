"""A survey tells the spread of shard keys, and names each table that will refuse to move."""

import asyncio

import pytest
from sqlalchemy import Computed, ForeignKey, ForeignKeyConstraint, SmallInteger, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from apportion.errors import InvalidInput, SchemaDiffers
from apportion.shards import Reference, Sharded, admin
from tests.shards.takeover.old_file import OldBase, OldFile


class CrookedBase(DeclarativeBase):
    pass


class Firm(Sharded, CrookedBase):
    __tablename__ = "firm"
    __shard_key__ = "country"
    __table_args__ = (UniqueConstraint("name"), UniqueConstraint("country", "name"))
    id: Mapped[int] = mapped_column(primary_key=True)
    country: Mapped[str]
    name: Mapped[str] = mapped_column()


class Desk(Sharded, CrookedBase):
    __tablename__ = "desk"
    __shard_parent__ = "firm_id"
    __table_args__ = (UniqueConstraint("firm_id", "number"), UniqueConstraint("number"))
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    firm_id: Mapped[int] = mapped_column(ForeignKey("firm.id"))
    number: Mapped[int]
    color: Mapped[str] = mapped_column(ForeignKey("color.name"))
    lamp_id: Mapped[int] = mapped_column(ForeignKey("lamp.id"))


class Lamp(Sharded, CrookedBase):
    __tablename__ = "lamp"
    __shard_key__ = "country"
    __table_args__ = (ForeignKeyConstraint(["country", "firm_id"], ["firm.country", "firm.id"]),)
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    country: Mapped[str]
    firm_id: Mapped[int]
    slot: Mapped[int] = mapped_column(SmallInteger, Computed("id % 64"))


class Color(Reference, CrookedBase):
    __tablename__ = "color"
    name: Mapped[str] = mapped_column(primary_key=True)


class Note(CrookedBase):
    __tablename__ = "note"
    id: Mapped[int] = mapped_column(primary_key=True)


def surveyed(folder, base, shards=("one", "two")):
    return asyncio.run(admin.survey({each: f"sqlite:///{folder}/{each}.db" for each in shards}, base=base))


def test_the_obstacles_of_models_are_named_without_a_database(tmp_path):
    found = surveyed(tmp_path, CrookedBase)
    assert ("", ()) == (found.shard, found.tables)
    assert {
        ("unique", "firm", "unique (name)"),
        ("given-out", "firm", "the database gives out id"),
        ("unique", "desk", "unique (number)"),
        ("foreign-key", "desk", "(lamp_id) names lamp"),
        ("generated-slot", "lamp", "slot is a generated column"),
        ("undeclared", "note", "neither sharded nor a reference"),
    } == {(each.kind, each.table, each.found) for each in found.obstacles}
    assert [] == [*tmp_path.iterdir()]


def test_a_table_that_no_model_knows_is_named(tmp_path):
    old = OldFile(tmp_path)
    old.sql("CREATE TABLE cron_job (id INTEGER PRIMARY KEY)")
    old.sql("CREATE TABLE alembic_version (version_num VARCHAR)")
    found = surveyed(tmp_path, OldBase)
    assert ["cron_job"] == [each.table for each in found.obstacles if each.kind == "undeclared"]


def test_the_keys_are_counted_and_the_largest_are_named(tmp_path):
    old = OldFile(tmp_path)
    old.many("INSERT INTO town (id, country) VALUES (?, 'US')", [(n,) for n in range(100, 160)])
    found = surveyed(tmp_path, OldBase)
    tables = {each.table: each for each in found.tables}
    assert ("one", 2) == (found.shard, found.shards)
    assert (100, 5) == (tables["town"].rows, tables["town"].keys)
    assert admin.KeyRows(key="US", rows=68) == tables["town"].largest[0]
    assert 0.3 < tables["town"].cv_ratio < 1
    assert (40, 40, 10) == (tables["stamp"].rows, tables["stamp"].keys, len(tables["stamp"].largest))
    assert (80, None, None) == (tables["street"].rows, tables["street"].keys, tables["street"].cv_ratio)


def test_a_key_that_no_slot_fits_is_refused(tmp_path):
    old = OldFile(tmp_path)
    old.sql("UPDATE stamp SET year = 0.5 WHERE year = 3")
    with pytest.raises(InvalidInput, match=r"^shard key country, year of stamp: key is 0\.5"):
        surveyed(tmp_path, OldBase)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("ALTER TABLE town DROP COLUMN changed", "town.changed is absent"),
        ("ALTER TABLE town ADD COLUMN mayor TEXT NOT NULL DEFAULT ''", None),
        ("DROP TABLE stamp", None),
        ("ALTER TABLE town RENAME COLUMN changed TO altered", "town.changed is absent"),
    ],
)
def test_a_table_that_differs_from_its_model_is_refused_by_init(tmp_path, statement, said):
    old = OldFile(tmp_path)
    old.sql(statement)
    before = old.schema()
    if said is None:
        old.take()
    else:
        with pytest.raises(SchemaDiffers) as refused:
            old.take()
        assert said in refused.value.differences
        assert before == old.schema()
