"""Parts for tests of shards: models of an application, and sets of databases that a test may shift slots on."""

import asyncio
import sqlite3
from contextlib import closing
from uuid import UUID, uuid4

from sqlalchemy import ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from apportion.model.topology import Node
from apportion.shards import Reference, Sharded
from apportion.shards.foundation import found
from apportion.shards.records import ShardRecord
from apportion.shards.slots import shifted
from apportion.stores.catalog import connect
from apportion.tables.publisher import Publisher

SET = "world"
SLOTS = 64


class Base(DeclarativeBase):
    pass


class Place(Sharded, Base):
    __tablename__ = "place"
    __shard_key__ = "country"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    country: Mapped[str]
    visits: Mapped[int] = mapped_column(default=0)
    photos: Mapped[list["Photo"]] = relationship(foreign_keys="Photo.place_id", back_populates="place")


class Photo(Sharded, Base):
    __tablename__ = "photo"
    __shard_parent__ = "place_id"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    place_id: Mapped[UUID] = mapped_column(ForeignKey("place.id"))
    place: Mapped[Place] = relationship(foreign_keys=[place_id], back_populates="photos")


class Visit(Sharded, Base):
    __tablename__ = "visit"
    __shard_key__ = ("country", "year")
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    country: Mapped[str]
    year: Mapped[int]


class Currency(Reference, Base):
    __tablename__ = "currency"
    code: Mapped[str] = mapped_column(primary_key=True)


class Databases:
    """A set of databases, with the control store in a folder."""

    def __init__(self, folder, shards=("one", "two"), slots=SLOTS, base=None, is_ranged=False):
        self.folder, self.url = folder, f"sqlite:///{folder}/control.db"
        self.shards = {shard: ShardRecord(url=self.place(shard)) for shard in shards}
        asyncio.run(found(self.url, SET, self.shards, base or Base, slots, is_ranged=is_ranged))

    def state(self, shard, slot, state, number=None, life=None):
        """Set a slot's row on a shard, as the mover does in one transaction."""
        self.sql(shard, "DELETE FROM apportion_slot WHERE slot = ?", (slot,))
        statement = "INSERT INTO apportion_slot (slot, state, life, number) VALUES (?, ?, ?, ?)"
        self.sql(shard, statement, (slot, state, life, number))

    def publish(self, slot, shard):
        """Publish the table in which a slot has another shard; return its version."""

        async def main():
            store = await connect(self.url)
            try:
                publisher = Publisher(store, SET)
                table = await publisher.newest()
                changed = shifted(table, (slot,), Node(shard))
                return (await publisher.publish(changed)).version
            finally:
                await store.close()

        return asyncio.run(main())


class Files(Databases):
    """A set of SQLite files."""

    kind = "sqlite"

    def place(self, shard):
        return f"sqlite:///{self.folder}/{shard}.db"

    def sql(self, shard, statement, values=()):
        with closing(sqlite3.connect(self.folder / f"{shard}.db")) as connection, connection:
            connection.execute("PRAGMA foreign_keys = ON")
            return connection.execute(statement, values).fetchall()
