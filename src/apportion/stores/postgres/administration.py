"""Administration of a store in PostgreSQL. It also inspects a server that `connect` would refuse.

Promises: `inspect` writes nothing. Its findings about rights are about the user of the URL.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from apportion.errors import ApportionError, StoreUnavailable
from apportion.runtime.clock import SystemClock
from apportion.stores.administration import Administration, Finding, judged
from apportion.stores.damage.postgres import names
from apportion.stores.damage.rows import damage_found
from apportion.stores.postgres import statements as sql
from apportion.stores.postgres.door import OLDEST_VERSION, REQUEST_SECONDS, Door, Server
from apportion.stores.postgres.driver import Connection, psycopg
from apportion.stores.postgres.errors import refusal
from apportion.stores.postgres.lookout import counters_of
from apportion.stores.postgres.migrations import NEWEST
from apportion.stores.postgres.task_tables import HAS_TASKS, LACKING_TASKS, TASKS_VERSION, VERSION, make_tables
from apportion.stores.postgres.wire import PostgresNoReply
from apportion.stores.reaper import Counter
from apportion.stores.url import StoreUrl

_SLOW_SECONDS = 0.05


class PostgresAdministration(Administration):
    """Administers the store of one URL."""

    def __init__(self, url: StoreUrl) -> None:
        self._door = Door(url)
        self._schema = self._door.schema

    async def inspect(self) -> tuple[Finding, ...]:
        try:
            async with self._connected() as connection:
                return tuple([each async for each in self._found(connection)])
        except ApportionError as error:
            return (Finding(subject="server", found=error.problem, verdict="error", advice=error.hint),)

    async def absence(self) -> Finding | None:
        """See `Administration`. None if the server cannot be asked: `connect` then raises the error."""
        with suppress(ApportionError):
            async with self._connected() as connection:
                if not await self._schema.version(connection):
                    return self._of_schema(0)
        return None

    def upgrade_statements(self) -> tuple[str, ...]:
        """See `Administration`. The statements are for psql(1), in a database without the schema."""
        return _terminated("BEGIN", *self._schema.statements(since=0), *self._schema.task_statements(), "COMMIT")

    async def upgrade(self) -> tuple[int, int]:
        async with self._connected() as connection:
            return await self._schema.upgrade(connection)

    async def upgrade_tasks(self) -> tuple[int, int]:
        """See `Administration`. The schema must exist."""
        async with self._connected() as connection:
            [(has_tasks,)] = await self._door.run(connection, HAS_TASKS)
            before = int(str((await self._door.run(connection, VERSION))[0][0])) if has_tasks else 0
            await self._door.transact(
                connection, lambda transaction: make_tables(transaction.ask), seconds=REQUEST_SECONDS
            )
        return before, TASKS_VERSION

    def grants(self, user: str) -> tuple[str, ...]:
        return _terminated(*self._schema.grants(user))

    async def renewals(self) -> tuple[Counter, ...]:
        async with self._connected() as connection:
            return counters_of(await self._door.run(connection, sql.COUNTERS))

    async def restored(self) -> tuple[int, int]:
        """See `Administration`. Open handles notice the new incarnation at their next request."""
        async with self._connected() as connection:
            [(before, after)] = await self._door.run(connection, sql.RESTORED)
        return int(str(before)), int(str(after))

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        """Connect for one command, and translate the driver's errors."""
        connection = await self._door.connect()
        try:
            yield connection
        except PostgresNoReply as error:
            raise StoreUnavailable(self._door.name, error.reason) from error
        except psycopg.Error as error:
            raise refusal(self._door.name, error.sqlstate, type(error).__name__) from error
        finally:
            await connection.close()

    async def _found(self, connection: Connection) -> AsyncIterator[Finding]:
        clock = SystemClock()
        server = await self._door.look(connection)
        started = clock.elapsed()
        await self._door.run(connection, sql.NOTHING)
        round_trip = clock.elapsed() - started
        for finding in (*_of_server(server), *_of_durability(server)):
            yield finding
        fault = "Run the members nearer to their store." if round_trip > _SLOW_SECONDS else ""
        yield judged("latency", f"{1000 * round_trip:.1f} ms for a round trip", fault)
        [(exists,)] = await self._door.run(connection, sql.HAS_SCHEMA)
        [(has_tasks,)] = await self._door.run(connection, HAS_TASKS)
        lacking = str((await self._door.run(connection, sql.LACKING))[0][0]) if exists else ""
        if has_tasks and not lacking:
            lacking = str((await self._door.run(connection, LACKING_TASKS))[0][0])
        if lacking:
            advice = "Run the statements of: apportion store grants URL --user NAME"
            yield Finding(subject="rights", found=f"lacking on {lacking}", verdict="error", advice=advice)
            return
        version = await self._schema.version(connection)
        yield self._of_schema(version)
        if version == NEWEST:
            yield Finding(subject="rights", found="all that a member needs")
            [state] = await self._door.run(connection, sql.WHOLE_STATE)
            yield Finding(
                subject="state", found="incarnation {}, revision {}, history after {}".format(*map(str, state))
            )
        if has_tasks:
            tasks = int(str((await self._door.run(connection, VERSION))[0][0]))
            fault = "Upgrade apportion on this host." if tasks != TASKS_VERSION else ""
            yield judged("tasks", f"version {tasks}, this release writes {TASKS_VERSION}", fault, verdict="error")
            if not fault:
                yield damage_found(await names(partial(self._door.run, connection)))

    def _of_schema(self, version: int) -> Finding:
        name = self._schema.name
        if version == 0:
            advice = "The first connect makes it, if its user has the right. Or run: apportion store upgrade URL"
            return Finding(subject="schema", found=f"{name}: not there yet", verdict="absent", advice=advice)
        found = f"{name}: version {version}, this release writes {NEWEST}"
        if version == NEWEST:
            return Finding(subject="schema", found=found)
        advice = "Run: apportion store upgrade URL" if version < NEWEST else "Upgrade apportion on this host."
        return Finding(subject="schema", found=found, verdict="error", advice=advice)


def _terminated(*statements: str) -> tuple[str, ...]:
    return tuple(f"{statement.rstrip().removesuffix(';')};" for statement in statements)


def _of_server(server: Server) -> Iterator[Finding]:
    fault = f"Run PostgreSQL {OLDEST_VERSION} or newer." if server.version < OLDEST_VERSION else ""
    yield judged("server", f"PostgreSQL {server.version}", fault, verdict="error")
    if server.standby:
        advice = "Name the primary, or all hosts, in the URL."
        yield Finding(subject="role", found="standby, which takes no writes", verdict="error", advice=advice)
    if server.pooled:
        advice = "Watches poll behind a pooler. To save the server work, connect directly."
        found = "a transaction pooler stands before the server"
        yield Finding(subject="pooler", found=found, verdict="warning", advice=advice)


def _of_durability(server: Server) -> Iterator[Finding]:
    for name, is_on in (("fsync", server.fsync), ("full_page_writes", server.full_page_writes)):
        fault = f"Turn {name} on. Without it, a power cut can lose or damage acknowledged commits."
        yield judged(name, "on" if is_on else "off", "" if is_on else fault, verdict="error")
    fault = "Commits of this store turn it on for themselves. Other commits on this server may be lost."
    yield judged("synchronous_commit", server.synchronous_commit, fault if server.synchronous_commit == "off" else "")
    standbys = server.synchronous_standby_names
    advice = (
        "" if standbys else "A failover to an asynchronous standby may lose the last commits. Then all sessions end."
    )
    yield Finding(subject="synchronous_standby_names", found=standbys or "none", advice=advice)
