"""Servers: the shards of the demonstration as databases of PostgreSQL, each on a server of its own.

Clients reach a server by a socket in its folder, which belongs to one user. So there is no port and no password.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from apportion.console.demo.shards.databases import DemoConnection
from apportion.stores.postgres.driver import psycopg

USER, PORT = "demo", 5432
_PATIENCE_SECONDS = 10

_KEPT = "relname NOT IN ('shard_meta', 'slot', 'fences', 'move', 'marker')"
_LEFT = f"""SELECT relname FROM pg_class WHERE relnamespace = 'apportion'::regnamespace AND relkind = 'r' AND {_KEPT}
    UNION ALL SELECT 'step of ' || move FROM apportion.move UNION ALL SELECT 'mark of ' || move FROM apportion.marker
    ORDER BY 1"""  # noqa: S608 - the names are ours
_OURS = "IN ('apportion'::regnamespace, 'public'::regnamespace)"
_CATALOG = f"""SELECT 'table ' || relname FROM pg_class WHERE relnamespace {_OURS}
    UNION ALL SELECT 'function ' || proname FROM pg_proc WHERE pronamespace {_OURS}
    UNION ALL SELECT 'trigger ' || tgname || ' of ' || tgrelid::regclass FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT 'publication ' || pubname FROM pg_publication
    UNION ALL SELECT 'subscription ' || subname FROM pg_subscription
    UNION ALL SELECT 'replication slot ' || slot_name FROM pg_replication_slots
    UNION ALL SELECT 'origin ' || roname FROM pg_replication_origin ORDER BY 1"""  # noqa: S608 - the names are ours


class ServerConnection:
    """See `DemoConnection`: a connection of psycopg that takes `?` for each value."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - of psycopg
        self.bare: psycopg.Connection[Any] = psycopg.connect(
            user=USER, port=PORT, autocommit=True, connect_timeout=_PATIENCE_SECONDS, **options
        )

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Any:  # noqa: ANN401 - a cursor
        """See `DemoConnection`."""
        return self.bare.execute(statement.replace("%", "%%").replace("?", "%s"), values)

    def close(self) -> None:
        """See `DemoConnection`."""
        self.bare.close()


class DemoServers:
    """See `DemoDatabases`. The slots go from one server to the other one, and back."""

    shards: tuple[str, ...] = ("one", "two")
    noun: str = "server"
    client: str = "psycopg"
    prefix: str = "apportion."
    loop_client: str = "psycopg"
    rest_seconds: float = 0.08
    engine_options: Mapping[str, Any] = {}
    refusal: type[Exception] = psycopg.DatabaseError
    cut: tuple[type[Exception], ...] = (psycopg.OperationalError,)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self) -> None:
        """See `DemoDatabases`. The servers run already."""
        for shard in self.shards:
            with closing(self._connected(shard, "postgres")) as connection:
                connection.execute(f"CREATE DATABASE {shard}")

    def address(self, shard: str) -> str:
        """See `DemoDatabases`."""
        return f"postgresql://{USER}@/{shard}?host={self._folder / shard}&port={PORT}"

    def connect(self, shard: str) -> ServerConnection:
        """See `DemoDatabases`."""
        return self._connected(shard, shard)

    @contextmanager
    def unguarded(self, shard: str) -> Iterator[DemoConnection]:
        """See `DemoDatabases`."""
        with closing(self.connect(shard)) as connection:
            connection.execute("SET session_replication_role = replica")
            yield connection

    def fill(self, shard: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """See `DemoDatabases`."""
        filled = "COPY place (id, slot, country, name, visits) FROM STDIN"
        with closing(self.connect(shard)) as connection, connection.bare.cursor().copy(filled) as copy:
            for row in rows:
                copy.write_row(row)

    def left(self, connection: DemoConnection) -> list[str]:
        """See `DemoDatabases`."""
        return [name for (name,) in connection.execute(_LEFT)]

    def catalog(self, connection: DemoConnection) -> list[str]:
        """See `DemoDatabases`. Objects of the whole server, such as replication slots, are included."""
        return [name for (name,) in connection.execute(_CATALOG)]

    def _connected(self, shard: str, database: str) -> ServerConnection:
        return ServerConnection(host=str(self._folder / shard), dbname=database)
