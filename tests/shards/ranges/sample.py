"""Models for tests of ranges, with keys of text and with keys of integers, each with a child; and sets of them."""

import asyncio
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from apportion.shards import Sharded, admin
from tests.shards.sample import SET

ROWS = 3
"""The rows of a key."""


class Base(DeclarativeBase):
    pass


class Note(Sharded, Base):
    __tablename__ = "note"
    __shard_key__ = "name"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    name: Mapped[str]
    count: Mapped[int] = mapped_column(default=0)
    lines: Mapped[list["Line"]] = relationship(foreign_keys="Line.note_id", back_populates="note")


class Line(Sharded, Base):
    __tablename__ = "line"
    __shard_parent__ = "note_id"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    note_id: Mapped[UUID] = mapped_column(ForeignKey("note.id"))
    note: Mapped[Note] = relationship(foreign_keys=[note_id], back_populates="lines")


class Numbers(DeclarativeBase):
    pass


class Reading(Sharded, Numbers):
    __tablename__ = "reading"
    __shard_key__ = "meter"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    meter: Mapped[int] = mapped_column(BigInteger)


def act(name, files, *words, **options):
    """Do an act of an operator."""
    return asyncio.run(getattr(admin, name)(files.url, SET, *words, **options))


def split(files, slot, at, base=Base, **options):
    found = act("split", files, slot, at, base=base, **options)
    return found.slot, found.shard, found.is_new


def merge(files, slot, other):
    found = act("merge", files, slot, other)
    return found.slot, found.start, found.end


def ranges(files):
    """Return the range of each slot, with its shard."""
    table = act("status", files).table
    return {f"{slot}{table.ranges.bounds[slot]}": table.shard(slot) for slot in table.ranges.slots}


def ill(files, base=Base):
    found = act("doctor", files, base=base, is_whole=True)
    return [(each.subject, each.verdict, each.found) for each in found if each.verdict != "ok"]


def is_sound(files, base=Base):
    return act("verify", files, base=base).is_sound and not ill(files, base)


def rows(files, shard, table="note"):
    """Return the number of rows of each slot."""
    return dict(files.sql(shard, f"SELECT slot, count(*) FROM {table} GROUP BY slot ORDER BY slot"))
