"""Dialects: for each kind of database, the fence of a shard and the URL with which SQLAlchemy opens the shard."""

from collections.abc import Mapping
from importlib.util import find_spec

from sqlalchemy.engine import URL

from apportion.errors import MissingExtra, UnknownOption
from apportion.shards.pin import Fence
from apportion.shards.postgres.fence import PostgresFence
from apportion.shards.shard_url import parsed
from apportion.shards.sqlite.fence import SqliteFence

_FENCES: dict[str, type[Fence]] = {"postgresql": PostgresFence, "sqlite": SqliteFence}


def kind_of(url: str) -> str:
    """Return the name of the database in the stored URL of a shard: sqlite or postgresql."""
    return url.partition(":")[0].partition("+")[0]


def fence_of(url: URL) -> Fence:
    """Return the fence for a URL. `UnknownOption` for a kind of database that cannot be a shard."""
    name = url.get_backend_name()
    if name not in _FENCES:
        raise UnknownOption("database of a shard", name, _FENCES)
    return _FENCES[name]()


def address_of(address: str, drivers: Mapping[str, str]) -> URL:
    """Return the URL for SQLAlchemy. A URL without a driver gets the driver of its database."""
    url = parsed(address)
    driver = drivers.get(url.drivername, "")
    if driver == "psycopg" and find_spec(driver) is None:
        raise MissingExtra("the client of PostgreSQL (psycopg)", "postgres")
    return url.set(drivername=f"{url.drivername}+{driver}") if driver else url
