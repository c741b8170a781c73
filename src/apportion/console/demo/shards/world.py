"""World: the places of the tour as rows of a set of shards; a country is a tenant, and lies on one shard as a whole."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from apportion.console.tour.places import places
from apportion.shards import Sharded, admin

SET = "world"
MODELS = "apportion.console.demo.shards.world:WorldBase"
FIRST, OTHERS = "one", ("two", "three")
WRITERS = 8
SLOTS = 1_024


class WorldBase(DeclarativeBase):
    """The base of the models of the demonstration."""


class WorldPlace(Sharded, WorldBase):
    """A place: its country decides its shard. `visits` is the number of the last write to it."""

    __tablename__: Any = "place"  # of any form, as SQLAlchemy declares it
    __shard_key__: ClassVar[str | tuple[str, ...]] = "country"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    country: Mapped[str]
    name: Mapped[str]
    visits: Mapped[int] = mapped_column(default=0)


class DemoWorld:
    """The files of the demonstration: the control store, a file of each shard, the plan, and a ledger per process."""

    def __init__(self, folder: Path) -> None:
        self.folder: Path = folder
        self.url: str = f"sqlite:///{folder / 'control.db'}"
        self.plan: Path = folder / "plan.json"

    def file(self, shard: str) -> Path:
        """Return the file of a shard."""
        return self.folder / f"{shard}.db"

    def address(self, shard: str) -> str:
        """Return the URL of a shard."""
        return f"sqlite:///{self.file(shard)}"

    def ledger(self, process: str) -> Path:
        """Return the ledger of a process."""
        return self.folder / f"{process}.ledger"

    def found(self) -> int:
        """Make the set with one shard, and fill it; return the number of places."""
        with closing(sqlite3.connect(self.file(FIRST))) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        asyncio.run(admin.init(self.url, SET, {FIRST: self.address(FIRST)}, base=WorldBase, slots=SLOTS))
        table = asyncio.run(admin.status(self.url, SET)).table
        named = [line.decode().split("/") for line in places()]
        slots = {country: table.slot(country) for country in {country for country, *_ in named}}
        rows = [(int(number), slots[country], country, "/".join(name), 0) for country, *name, number in named]
        with closing(sqlite3.connect(self.file(FIRST))) as connection, connection:
            connection.executemany("INSERT INTO place (id, slot, country, name, visits) VALUES (?, ?, ?, ?, ?)", rows)
        return len(rows)
