"""A row between a parent and children gets another parent while a key is isolated: its children go or stay with it."""

import asyncio

import pytest
from sqlalchemy import ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import apportion.sync
from apportion.shards import Sharded, admin
from apportion.shards.admin import carrier
from tests.shards.sample import SET
from tests.shards.server import OWNER, as_role

KEY, OTHER = "acme", "other"
COUNTED = "SELECT 'place', id FROM place UNION SELECT 'photo', id FROM photo UNION SELECT 'tag', id FROM tag UNION {}"
MARKS = "SELECT 'mark', id * 100 + part FROM mark ORDER BY 1, 2"


class Base(DeclarativeBase):
    pass


class Place(Sharded, Base):
    __tablename__ = "place"
    __shard_key__ = "country"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    country: Mapped[str]


class Photo(Sharded, Base):
    __tablename__ = "photo"
    __shard_parent__ = "place_id"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    place_id: Mapped[int] = mapped_column(ForeignKey("place.id"))


class Tag(Sharded, Base):
    __tablename__ = "tag"
    __shard_parent__ = "photo_id"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    photo_id: Mapped[int] = mapped_column(ForeignKey("photo.id"))


class Mark(Sharded, Base):
    __tablename__ = "mark"
    __shard_parent__ = "tag_id"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    part: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    tag_id: Mapped[int] = mapped_column(ForeignKey("tag.id"))


@pytest.fixture
def files(make_set, kind, monkeypatch):
    """A set of one slot: a place of each key, with a photo, a tag and a mark."""
    as_role(monkeypatch, OWNER)
    made = make_set(kind, slots=1, base=Base)
    with apportion.sync.open_shards(made.url, SET, base=Base) as router:
        for number, key in ((1, KEY), (2, OTHER)):
            rows = [
                Place(id=number, country=key),
                Photo(id=number, place_id=number),
                Tag(id=number, photo_id=number),
                Mark(id=number, part=number, tag_id=number),
            ]
            router.run(key, lambda session, rows=rows: [(session.add(row), session.flush()) for row in rows])
    return made


@pytest.mark.parametrize("label", ["chunk.after", "verify.after"])
@pytest.mark.parametrize(("photo", "place"), [(2, 1), (1, 2)])
def test_children_of_a_row_with_another_parent_go_or_stay_with_it(files, monkeypatch, label, photo, place):
    due = [label]

    def reached(at):
        if at in due:
            due.remove(at)
            files.sql("one", f"UPDATE photo SET place_id = {place} WHERE id = {photo}")

    monkeypatch.setattr(carrier, "stop_point", lambda: reached)
    asyncio.run(admin.isolate(files.url, SET, KEY, base=Base, to="two"))
    gone = {1, 2} if place == 1 else set()
    expected = [("place", 1), *((name, each) for name in ("photo", "tag") for each in sorted(gone))]
    expected += [("mark", each * 101) for each in sorted(gone)]
    assert ([], sorted(expected)) == (due, files.sql("two", COUNTED.format(MARKS)))
    rest = {1, 2} - gone
    expected = [("place", 2), *((name, each) for name in ("photo", "tag") for each in rest)]
    assert sorted([*expected, *(("mark", each * 101) for each in rest)]) == files.sql("one", COUNTED.format(MARKS))
