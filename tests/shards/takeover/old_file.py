"""Part for tests of takeovers: a file of an application that knew of no slots, and the look at what became of it."""

import asyncio
import sqlite3
from contextlib import closing

from sqlalchemy import ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from apportion.shards import Sharded
from apportion.shards.foundation import found
from apportion.shards.records import ShardRecord
from apportion.shards.slots import hash_slot

SET, SLOTS = "world", 64
COUNTRIES = ("FR", "DE", "US", "PE", "IT")


class OldBase(DeclarativeBase):
    pass


class Town(Sharded, OldBase):
    __tablename__ = "town"
    __shard_key__ = "country"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    country: Mapped[str]
    changed: Mapped[int] = mapped_column(default=0, onupdate=lambda: 99)


class Street(Sharded, OldBase):
    __tablename__ = "street"
    __shard_parent__ = "town_id"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    town_id: Mapped[int] = mapped_column(ForeignKey("town.id"))


class House(Sharded, OldBase):
    __tablename__ = "house"
    __shard_parent__ = "street_id"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    street_id: Mapped[int] = mapped_column(ForeignKey("street.id"))


class Stamp(Sharded, OldBase):
    __tablename__ = "stamp"
    __shard_key__ = ("country", "year")
    country: Mapped[str] = mapped_column(primary_key=True)
    year: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


OLD = """
CREATE TABLE IF NOT EXISTS town (id INTEGER PRIMARY KEY, country VARCHAR NOT NULL, changed INTEGER NOT NULL DEFAULT 0);
CREATE TABLE street (id INTEGER PRIMARY KEY, town_id INTEGER NOT NULL REFERENCES town (id));
CREATE TABLE house (id INTEGER PRIMARY KEY, street_id INTEGER NOT NULL REFERENCES street (id));
CREATE TABLE stamp (country VARCHAR NOT NULL, year INTEGER NOT NULL, PRIMARY KEY (country, year));
"""


class OldFile:
    """A file `one.db` with towns, their streets, the houses of those, and stamps; `two.db` is absent."""

    def __init__(self, folder, towns=40, *, is_made=False):
        self.folder, self.url = folder, f"sqlite:///{folder}/control.db"
        if not is_made:
            self.make(towns)

    def make(self, towns):
        with closing(sqlite3.connect(self.folder / "one.db")) as connection:
            connection.executescript(OLD)
        rows = range(towns)
        self.many("INSERT INTO town (id, country) VALUES (?, ?)", [(n, COUNTRIES[n % 5]) for n in rows])
        self.many("INSERT INTO street VALUES (?, ?)", [(n, n % towns) for n in range(2 * towns)])
        self.many("INSERT INTO house VALUES (?, ?)", [(n, n % (2 * towns)) for n in range(3 * towns)])
        self.many("INSERT INTO stamp VALUES (?, ?)", [(COUNTRIES[n % 5], n) for n in rows])

    def many(self, statement, rows):
        with closing(sqlite3.connect(self.folder / "one.db")) as connection, connection:
            connection.executemany(statement, rows)

    def sql(self, statement, values=(), file="one.db"):
        with closing(sqlite3.connect(self.folder / file)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def take(self, shards=("one", "two"), told=lambda _: None):
        records = {shard: ShardRecord(url=f"sqlite:///{self.folder}/{shard}.db") for shard in shards}
        asyncio.run(found(self.url, SET, records, OldBase, SLOTS, told=told))

    def schema(self):
        return self.sql("SELECT type, name, sql FROM sqlite_schema ORDER BY name")

    def wrong(self):
        """Return the rows of all tables with another slot than that of their key, or of their parent."""
        towns = self.sql("SELECT slot, country FROM town")
        stamps = self.sql("SELECT slot, country, year FROM stamp")
        return [
            *((slot, key) for slot, key in towns if slot != hash_slot(key, SLOTS)),
            *((slot, key) for slot, *key in stamps if slot != hash_slot(tuple(key), SLOTS)),
            *self.sql("SELECT s.id, s.slot FROM street s JOIN town t ON t.id = s.town_id WHERE s.slot IS NOT t.slot"),
            *self.sql("SELECT h.id, h.slot FROM house h JOIN street s ON s.id = street_id WHERE h.slot IS NOT s.slot"),
        ]
