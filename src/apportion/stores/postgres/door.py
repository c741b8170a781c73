"""The door to a PostgreSQL server: it connects, runs statements, and refuses unusable servers.

Promises: each statement is a transaction of its own, bounded in time. `StoreUnavailable` means that a statement
surely had no effect; `PostgresNoReply` means that it may have had one. A standby and an old version are refused. If
the cluster or its timeline is not the one that the schema remembers, another incarnation begins.
Refuses: to rely on any state of a session. So a transaction pooler may stand before the server.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from apportion.errors import InvalidInput, StoreDenied, StoreUnavailable
from apportion.stores.postgres import statements as sql
from apportion.stores.postgres.driver import Connection, Parameters, Row, psycopg
from apportion.stores.postgres.errors import MAKE_SCHEMA, refusal, unreachable
from apportion.stores.postgres.exchange import rows_of
from apportion.stores.postgres.migrations import NEWEST
from apportion.stores.postgres.schema import SCHEMA, Schema
from apportion.stores.postgres.wire import PostgresNoReply, bounded
from apportion.stores.url import StoreUrl

REQUEST_SECONDS = 5.0
OLDEST_VERSION = 12
_CONNECT_SECONDS = 5.0  # for all hosts together
_HOST_OF_MANY_SECONDS = 2.0
_TRIES = 3
_TLS_OPTIONS = ("sslcert", "sslkey", "sslmode", "sslrootcert")
_AGAIN = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.InvalidSqlStatementName,  # the server has forgotten a prepared statement
)
WATCH = "watch"
Result = TypeVar("Result")
OPTIONS = ("application_name", "host", "schema", WATCH, *_TLS_OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The facts that a server reports over a connection."""

    version: int
    pooled: bool
    standby: bool
    fsync: bool
    full_page_writes: bool
    synchronous_commit: str
    synchronous_standby_names: str
    fingerprint: str
    encrypted: bool
    local: bool
    round_trip_seconds: float

    @property
    def durable(self) -> bool:
        """Whether an acknowledged commit survives a power cut."""
        return self.fsync and self.full_page_writes


class Transaction:
    """An open transaction, for the statements of a caller."""

    def __init__(self, connection: Connection, schema: Schema) -> None:
        self._connection, self._schema = connection, schema

    async def ask(self, statement: str, parameters: Parameters = ()) -> list[Row]:
        """Run a statement; return its rows."""
        return await rows_of(self._connection, self._schema.fill(statement), parameters)

    async def each(self, statement: str, parameters: Sequence[Parameters]) -> None:
        """Run a statement with each of these parameters, in order, in one round trip."""
        if parameters:
            async with self._connection.cursor(binary=True) as cursor:
                await cursor.executemany(self._schema.fill(statement), parameters)


class Door:
    """The way into the database of one URL."""

    def __init__(self, url: StoreUrl) -> None:
        url.expect(options=OPTIONS, parts=("user", "password", "host", "port", "path"))
        if not url.path:
            example = "Write for example postgresql://user@host:5432/database"
            raise InvalidInput("path of the store URL", "", "the name of a database", example)
        if (watch := url.option(WATCH, "hints")) not in ("hints", "poll"):
            raise InvalidInput("watch", watch, "hints or poll", "Write ?watch=poll if many processes share a pooler.")
        self.name: str = str(url)
        self.is_polled: bool = watch == "poll"
        self.schema: Schema = Schema(url.option("schema", SCHEMA))
        self._targets = _targets(url)

    async def connect(self, *, seconds: float = REQUEST_SECONDS) -> Connection:
        """Return a new connection, which belongs to the caller. Hosts are tried in turn; no server is checked yet.

        `seconds` bounds each host, including its handshake.
        """
        said: list[psycopg.Error] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(_CONNECT_SECONDS):
                for target in tuple(self._targets):
                    try:
                        return await self._reached(target, seconds)
                    except psycopg.Error as error:
                        said.append(error)
                every = "\n".join(map(str, said))
                raise unreachable(self.name, every, type(said[-1]).__name__) from said[-1]
        raise unreachable(self.name, "timeout", TimeoutError.__name__)

    def connect_here(self) -> "psycopg.Connection[Row]":
        """Return a new connection for this thread, which belongs to the caller. Hosts are tried in turn."""
        said: list[psycopg.Error] = []
        for target in tuple(self._targets):
            try:
                return psycopg.connect(target)
            except psycopg.Error as error:
                said.append(error)
        raise unreachable(self.name, "\n".join(map(str, said)), type(said[-1]).__name__) from said[-1]

    async def run(
        self, connection: Connection, statement: str, parameters: Parameters = (), *, seconds: float = REQUEST_SECONDS
    ) -> list[Row]:
        """Run a statement on a connection, bounded in time. Run it again if the server asks for that."""
        return await self._bounded(
            connection, lambda: rows_of(connection, self.schema.fill(statement), parameters), seconds
        )

    async def transact(
        self, connection: Connection, work: Callable[[Transaction], Awaitable[Result]], *, seconds: float
    ) -> Result:
        """Run work in one transaction, all of it or nothing. Run it again if the server asks for that."""

        async def _once() -> Result:
            async with connection.transaction():
                return await work(Transaction(connection, self.schema))

        return await self._bounded(connection, _once, seconds)

    async def look(self, connection: Connection, *, seconds: float = REQUEST_SECONDS) -> Server:
        """Look at the server of a connection: read the facts about it, and change nothing."""
        started = time.monotonic()
        try:
            [answer] = await self.run(connection, sql.PROBE, seconds=seconds)
        except PostgresNoReply as error:
            raise StoreUnavailable(self.name, error.reason) from error
        pid, standby, fsync, pages, commits, standbys, fingerprint = answer
        return Server(
            version=connection.info.server_version // 10_000,
            # At connect, a pooler does not yet know the server process that will answer. So it reports an invented
            # process id.
            pooled=pid != connection.info.backend_pid,
            standby=bool(standby),
            fsync=fsync == "on",
            full_page_writes=pages == "on",
            synchronous_commit=str(commits),
            synchronous_standby_names=str(standbys),
            fingerprint=str(fingerprint),
            encrypted=bool(connection.pgconn.ssl_in_use),
            local=connection.info.hostaddr in ("", "127.0.0.1", "::1"),
            round_trip_seconds=time.monotonic() - started,
        )

    async def admit(self, connection: Connection, server: Server, *, seconds: float = REQUEST_SECONDS) -> None:
        """Refuse an unusable server; make the schema if needed, and update its incarnation."""
        if server.version < OLDEST_VERSION:
            hint = f"Run PostgreSQL {OLDEST_VERSION} or newer."
            raise InvalidInput("version of the server", server.version, f"{OLDEST_VERSION} or more", hint)
        if server.standby:
            hint = "Name the primary, or all hosts: postgresql://user@host1,host2/database"
            raise StoreUnavailable(self.name, "the server is a standby, which takes no writes", hint)
        if server.pooled:
            connection.prepare_threshold = None  # a pooler gives prepared statements to other clients
        version = await self._schema_version(connection, seconds)
        self.schema.require_known(version)
        if version < NEWEST:
            raise StoreUnavailable(self.name, f"its schema has version {version}, not {NEWEST}", MAKE_SCHEMA)
        try:
            await self.run(connection, sql.ADOPT, {"fingerprint": server.fingerprint}, seconds=seconds)
        except PostgresNoReply as error:
            raise StoreUnavailable(self.name, error.reason) from error

    async def _reached(self, target: str, seconds: float) -> Connection:
        limit = min(seconds, _HOST_OF_MANY_SECONDS if len(self._targets) > 1 else _CONNECT_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                connection = await psycopg.AsyncConnection.connect(target, autocommit=True)
            self._targets.remove(target)  # the next connect begins with the host that answered last
            self._targets.insert(0, target)
            return connection
        # Not inside an `except`: an error with the time-out as its context would keep the socket open.
        raise psycopg.errors.ConnectionTimeout("timeout expired")

    async def _schema_version(self, connection: Connection, seconds: float) -> int:
        version = NEWEST
        try:
            with bounded(connection, seconds):
                version = await self.schema.version(connection)
            with bounded(connection, REQUEST_SECONDS):
                return version or (await self.schema.upgrade(connection))[1]
        except psycopg.Error as error:
            if connection.closed:
                raise StoreUnavailable(self.name, "the new connection broke at once") from error
            if version == 0 and error.sqlstate == "42501":
                reason = "its schema does not exist, and this user may not create it"
                raise StoreDenied(self.name, reason, MAKE_SCHEMA) from error
            raise refusal(self.name, error.sqlstate, type(error).__name__) from error

    async def _bounded(self, connection: Connection, once: Callable[[], Awaitable[Result]], seconds: float) -> Result:
        try:
            with bounded(connection, seconds):
                for _ in range(_TRIES - 1):
                    with suppress(*_AGAIN):
                        return await once()
                return await once()
        except psycopg.Error as error:
            # A server that ends a connection may have committed before.
            if connection.closed or error.sqlstate == "40003":
                raise PostgresNoReply(f"the connection broke, or no reply came within {seconds:g} s") from error
            raise refusal(self.name, error.sqlstate, type(error).__name__) from error


def _targets(url: StoreUrl) -> list[str]:
    """Return the connection string of each host. The driver encodes the string, so every password arrives unchanged."""
    ports = [str(port or 5432) for _, port in url.hosts] or ["5432"]
    names = (url.option("host") or ",".join(host for host, _ in url.hosts) or "localhost").split(",")
    ports = ports * len(names) if len(ports) == 1 else ports
    if len(ports) != len(names):
        expected, hint = f"one, or one per host ({len(names)})", "Write a port after each host: host1:5432,host2:5433"
        raise InvalidInput("ports of the store URL", len(ports), expected, hint)
    given = {
        "user": url.user,
        "password": url.password,
        "dbname": url.path,
        "application_name": url.option("application_name", "apportion"),
        "target_session_attrs": "read-write" if len(names) > 1 else "",
        **{name: url.option(name) for name in _TLS_OPTIONS},
    }
    options = {name: value for name, value in given.items() if value}
    return [
        psycopg.conninfo.make_conninfo(
            **options,
            host=host,
            port=port,
            connect_timeout=int(_CONNECT_SECONDS),
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
            tcp_user_timeout=10_000,
        )
        for host, port in zip(names, ports, strict=True)
    ]
