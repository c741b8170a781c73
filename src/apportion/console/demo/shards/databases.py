"""Databases of the demonstration of shards: files of SQLite, or servers of PostgreSQL. All else is the same for both.

Statements have `?` for each value. The prefix of the databases begins a table's name: `apportion_slot` on files,
`apportion.slot` on servers.
Promises: a connection commits each statement, and knows nothing of this library.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class DemoConnection(Protocol):
    """A bare connection to the database of one shard."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Any:  # noqa: ANN401 - a cursor of any driver
        """Run a statement, and return its cursor."""

    def close(self) -> None:
        """Close the connection."""


class DemoDatabases(Protocol):
    """The databases of the demonstration, by the ids of their shards.

    - `noun`, `client`: the words for one database, and for the driver of a bare script.
    - `prefix`: the beginning of the names of all tables that the library makes.
    - `loop_client`: the driver for event loops.
    - `rest_seconds`: the time between two writes of a writer. Those to servers cost more.
    - `engine_options`: the options of the engines that the writers make.
    - `refusal`: the error of a trigger that refuses a write.
    - `cut`: the errors after which nobody knows whether a write was made.
    """

    shards: tuple[str, ...]
    noun: str
    client: str
    prefix: str
    loop_client: str
    rest_seconds: float
    engine_options: Mapping[str, Any]
    refusal: type[Exception]
    cut: tuple[type[Exception], ...]

    def make(self) -> None:
        """Make an empty database for each shard."""

    def address(self, shard: str) -> str:
        """Return the URL of a shard."""

    def connect(self, shard: str) -> DemoConnection:
        """Open a bare connection."""

    def unguarded(self, shard: str) -> AbstractContextManager[DemoConnection]:
        """Open a connection that no trigger refuses, to plant faults."""

    def fill(self, shard: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert places: id, slot, country, name, visits."""

    def left(self, connection: DemoConnection) -> list[str]:
        """Return the names of the leftovers of moves in a database."""

    def catalog(self, connection: DemoConnection) -> list[str]:
        """Return the names of all objects of a database, sorted."""
