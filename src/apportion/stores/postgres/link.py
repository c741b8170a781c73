"""One connection to a PostgreSQL server that comes back by itself.

Promises: each statement is a transaction of its own, bounded in time, and it is told apart what surely had no effect
(`StoreUnavailable`) and what may have had one (`NoReply`). Every connect looks at the server anew: a standby and an
old version are refused, and another cluster or timeline than the schema remembers begins another incarnation.
Refuses: to rely on anything that a session keeps, so that a transaction pooler may stand between.
"""

import asyncio
import os
import select
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass

from apportion.errors import InvalidInput, StoreClosed, StoreDenied, StoreUnavailable
from apportion.stores.postgres import statements as sql
from apportion.stores.postgres.driver import Connection, Parameters, Row, psycopg
from apportion.stores.postgres.errors import MAKE_SCHEMA, refusal, unreachable
from apportion.stores.postgres.migrations import NEWEST
from apportion.stores.postgres.schema import SCHEMA, Schema
from apportion.stores.url import StoreUrl

REQUEST_SECONDS = 5.0
_CONNECT_SECONDS = 5.0  # for all hosts together
_HOST_SECONDS = 3
_HOST_OF_MANY_SECONDS = 2
OLDEST_VERSION = 12
_TRIES = 3
_ROWS_AT_A_TIME = 1_000
_TLS_OPTIONS = ("sslcert", "sslkey", "sslmode", "sslrootcert")
OPTIONS = ("application_name", "host", "schema", *_TLS_OPTIONS)


class NoReply(Exception):
    """A statement was sent and its connection broke: it may have happened. Never leaves the store."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a connection found at its other end."""

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

    @property
    def durable(self) -> bool:
        """Whether what was acknowledged survives a power cut."""
        return self.fsync and self.full_page_writes


class Link:
    """A connection that is opened when it is needed, looked at, and opened again when it was lost."""

    def __init__(self, url: StoreUrl) -> None:
        url.expect(options=OPTIONS, parts=("user", "password", "host", "port", "path"))
        if not url.path:
            example = "Write for example postgresql://user@host:5432/database"
            raise InvalidInput("path of the store URL", "", "the name of a database", example)
        self.name = str(url)
        self.schema = Schema(url.option("schema", SCHEMA))
        self._target = _target(url)
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._pid = os.getpid()
        self._closed = False

    def require_open(self) -> None:
        """Raise `StoreClosed` for a link that was closed or that crossed a fork."""
        if not self.ours:
            raise StoreClosed(self.name, "it belongs to the process that this one was forked from")
        if self._closed:
            raise StoreClosed(self.name)

    @property
    def ours(self) -> bool:
        """Whether this process opened it, and did not only inherit it in a fork."""
        return os.getpid() == self._pid

    @property
    def closed(self) -> bool:
        """Whether the owner closed it."""
        return self._closed

    async def ask(self, statement: str, parameters: Parameters = (), *, seconds: float = REQUEST_SECONDS) -> list[Row]:
        """Run a statement that does no harm when done twice: once more if its connection broke meanwhile."""
        with suppress(NoReply):
            return await self.send(statement, parameters, seconds=seconds)
        try:
            return await self.send(statement, parameters, seconds=seconds)
        except NoReply as error:
            raise StoreUnavailable(self.name, error.reason) from error

    async def send(self, statement: str, parameters: Parameters = (), *, seconds: float = REQUEST_SECONDS) -> list[Row]:
        """Run a statement once. `NoReply` when nobody knows whether it happened.

        A caller that is cancelled leaves it running: to interrupt it costs one more connection, or this one.
        """
        self.require_open()
        sending = asyncio.get_running_loop().create_task(self._send(statement, parameters, seconds))
        sending.add_done_callback(_heard)
        return await asyncio.shield(sending)

    async def open(self) -> Server:
        """Connect, look at the server, make the schema where there is none, and refuse what cannot be worked with."""
        async with self._taken(REQUEST_SECONDS):
            server, _ = await self._reconnect()
            return server

    async def connect(self) -> Connection:
        """Return one more connection, which nobody has looked at and which belongs to the caller."""
        self.require_open()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await psycopg.AsyncConnection.connect(self._target, autocommit=True)
        except TimeoutError as error:
            raise unreachable(self.name, "timeout", type(error).__name__) from error
        except psycopg.Error as error:
            raise unreachable(self.name, str(error), type(error).__name__) from error

    async def run(
        self, connection: Connection, statement: str, parameters: Parameters = (), *, seconds: float = REQUEST_SECONDS
    ) -> list[Row]:
        """Run a statement on a connection, bounded in time; again where the server asks for that."""
        try:
            with _bounded(connection, seconds):
                return await self._retried(connection, statement, parameters)
        except psycopg.Error as error:
            # A server that ends a connection may do so after the commit.
            if connection.closed or error.sqlstate == "40003":
                raise NoReply(f"the connection broke, or no reply came within {seconds:g} s") from error
            raise refusal(self.name, error.sqlstate, type(error).__name__) from error

    async def look(self, connection: Connection) -> Server:
        """Ask what is at the other end of a connection, changing nothing."""
        try:
            [(pid, standby, fsync, pages, commits, standbys, fingerprint)] = await self.run(connection, sql.PROBE)
        except NoReply as error:
            raise StoreUnavailable(self.name, error.reason) from error
        return Server(
            version=connection.info.server_version // 10_000,
            # A pooler makes up the process that it names at connect, for it does not know yet who will answer.
            pooled=pid != connection.info.backend_pid,
            standby=bool(standby),
            fsync=fsync == "on",
            full_page_writes=pages == "on",
            synchronous_commit=str(commits),
            synchronous_standby_names=str(standbys),
            fingerprint=str(fingerprint),
            encrypted=bool(connection.pgconn.ssl_in_use),
            local=connection.info.hostaddr in ("", "127.0.0.1", "::1"),
        )

    def shut(self) -> None:
        """Begin to close for good: who waits for an answer gets none."""
        self._closed = True
        if self._connection is not None and self._turn.locked():
            _cut(self._connection)

    async def close(self) -> None:
        """Close for good."""
        self.shut()
        async with self._turn:
            await self._let_go()

    async def _send(self, statement: str, parameters: Parameters, seconds: float) -> list[Row]:
        async with self._taken(seconds):
            connection = self._connection
            if connection is None or _is_lost(connection):
                _, connection = await self._reconnect()
            return await self.run(connection, statement, parameters, seconds=seconds)

    async def _retried(self, connection: Connection, statement: str, parameters: Parameters) -> list[Row]:
        for _ in range(_TRIES - 1):
            with suppress(psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                return await _rows(connection, self.schema.fill(statement), parameters)
        return await _rows(connection, self.schema.fill(statement), parameters)

    @asynccontextmanager
    async def _taken(self, seconds: float) -> AsyncIterator[None]:
        """Wait for our turn, as long as a request may take: a connection answers one question at a time."""
        self.require_open()
        try:
            async with asyncio.timeout(seconds):
                await self._turn.acquire()
        except TimeoutError as error:
            raise StoreUnavailable(self.name, f"requests before this one took {seconds:g} s") from error
        try:
            self.require_open()
            yield
        finally:
            self._turn.release()

    async def _reconnect(self) -> tuple[Server, Connection]:
        await self._let_go()
        connection = await self.connect()
        try:
            server = await self.look(connection)
            await self._settle(connection, server)
            self._connection = connection
        finally:
            if self._connection is not connection:
                await connection.close()
        return server, connection

    async def _settle(self, connection: Connection, server: Server) -> None:
        """Refuse what cannot be worked with; see to the schema and its incarnation."""
        if server.version < OLDEST_VERSION:
            hint = f"Run PostgreSQL {OLDEST_VERSION} or newer."
            raise InvalidInput("version of the server", server.version, f"{OLDEST_VERSION} or more", hint)
        if server.standby:
            hint = "Name the primary, or all hosts: postgresql://user@host1,host2/database"
            raise StoreUnavailable(self.name, "the server is a standby, which takes no writes", hint)
        if server.pooled:
            connection.prepare_threshold = None  # what is prepared stays with a process that others get next
        version = await self._schema_version(connection)
        self.schema.require_known(version)
        if version < NEWEST:
            raise StoreUnavailable(self.name, f"its schema is of version {version}, {NEWEST} is needed", MAKE_SCHEMA)
        try:
            await self.run(connection, sql.ADOPT, {"fingerprint": server.fingerprint})
        except NoReply as error:
            raise StoreUnavailable(self.name, error.reason) from error

    async def _schema_version(self, connection: Connection) -> int:
        """Return the version of the schema, which is made where there is none."""
        version = NEWEST
        try:
            with _bounded(connection, REQUEST_SECONDS):
                version = await self.schema.version(connection)
                return version or (await self.schema.upgrade(connection))[1]
        except psycopg.Error as error:
            if connection.closed:
                raise StoreUnavailable(self.name, "the connection broke at once") from error
            if version == 0 and error.sqlstate == "42501":
                reason = "its schema is not there, and this user may not make it"
                raise StoreDenied(self.name, reason, MAKE_SCHEMA) from error
            raise refusal(self.name, error.sqlstate, type(error).__name__) from error

    async def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _heard(sending: asyncio.Task[list[Row]]) -> None:
    """Take what came of it, so that nothing is said of an error whose caller is gone."""
    if not sending.cancelled():
        sending.exception()


async def _rows(connection: Connection, query: bytes, parameters: Parameters) -> list[Row]:
    """Run a statement and return its rows, letting others run while there are many."""
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(query, parameters)
        rows: list[Row] = []
        while cursor.description is not None:
            some = await cursor.fetchmany(_ROWS_AT_A_TIME)
            rows += some
            if len(some) < _ROWS_AT_A_TIME:
                break
            await asyncio.sleep(0)
        return rows


def _is_lost(connection: Connection) -> bool:
    """Whether a connection is broken: one that was asked nothing has something to say only when it ends."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


@contextmanager
def _bounded(connection: Connection, seconds: float) -> Iterator[None]:
    """Within: a connection that takes longer is broken."""
    cut = asyncio.get_running_loop().call_later(seconds, _cut, connection)
    try:
        yield
    finally:
        cut.cancel()


def _cut(connection: Connection) -> None:
    """Break a connection, so that whoever waits for it learns that at once, as if the network had done it."""
    if not connection.closed:
        with socket.socket(fileno=os.dup(connection.fileno())) as end, suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _target(url: StoreUrl) -> str:
    """Return where to connect to, as the driver writes it: it quotes a password so that it reads the same again."""
    hosts = url.option("host") or ",".join(host for host, _ in url.hosts) or "localhost"
    given = {
        "host": hosts,
        "port": ",".join(str(port or 5432) for _, port in url.hosts),
        "user": url.user,
        "password": url.password,
        "dbname": url.path,
        "application_name": url.option("application_name", "apportion"),
        "target_session_attrs": "read-write" if "," in hosts else "",
        **{name: url.option(name) for name in _TLS_OPTIONS},
    }
    return psycopg.conninfo.make_conninfo(
        **{name: value for name, value in given.items() if value},
        connect_timeout=_HOST_OF_MANY_SECONDS if "," in hosts else _HOST_SECONDS,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        tcp_user_timeout=10_000,
    )
