"""World: the places of the tour as rows of a set of shards. A country is a tenant: all its rows lie on one shard."""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from apportion.console.demo.shards.databases import DemoDatabases
from apportion.console.demo.shards.files import DemoFiles
from apportion.console.tour.places import places
from apportion.shards import Sharded, admin

SET = "world"
MODELS = "apportion.console.demo.shards.world:WorldBase"
FIRST = "one"
SERVERS = "servers"
"""The name of the folder of the servers. A demonstration without it is one of files."""

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
    """The folder of the demonstration: the control store, the databases, the plan, and a ledger per process."""

    def __init__(self, folder: Path) -> None:
        self.folder: Path = folder
        self.databases: DemoDatabases = databases_in(folder)
        self.url: str = f"sqlite:///{folder / 'control.db'}"
        self.plan: Path = folder / "plan.json"

    @property
    def others(self) -> dict[str, str]:
        """The URL of each shard that gets slots of the first one."""
        return {shard: self.databases.address(shard) for shard in self.databases.shards if shard != FIRST}

    def ledger(self, process: str) -> Path:
        """Return the ledger of a process."""
        return self.folder / f"{process}.ledger"

    def found(self) -> int:
        """Make the set with one shard, and fill it; return the number of places."""
        self.databases.make()
        asyncio.run(admin.init(self.url, SET, {FIRST: self.databases.address(FIRST)}, base=WorldBase, slots=SLOTS))
        table = asyncio.run(admin.status(self.url, SET)).table
        named = [line.decode().split("/") for line in places()]
        slots = {country: table.slot(country) for country in {country for country, *_ in named}}
        rows = [(int(number), slots[country], country, "/".join(name), 0) for country, *name, number in named]
        self.databases.fill(FIRST, rows)
        return len(rows)

    def owned_slots(self) -> dict[str, int]:
        """Return the number of slots that each shard owns."""
        query = f"SELECT count(*) FROM {self.databases.prefix}slot WHERE state = 'owner'"  # noqa: S608 - ours
        found = {}
        for shard in self.databases.shards:
            with closing(self.databases.connect(shard)) as connection:
                ((found[shard],),) = connection.execute(query).fetchall()
        return found

    def catalogs(self) -> dict[str, list[str]]:
        """Return the names of all objects of each database."""
        found = {}
        for shard in self.databases.shards:
            with closing(self.databases.connect(shard)) as connection:
                found[shard] = self.databases.catalog(connection)
        return found


def databases_in(folder: Path) -> DemoDatabases:
    """Return the databases of the demonstration in a folder. `MissingExtra` for servers without their client."""
    if (folder / SERVERS).is_dir():
        from apportion.console.demo.shards.servers import DemoServers  # noqa: PLC0415 - an extra

        return DemoServers(folder / SERVERS)
    return DemoFiles(folder)
