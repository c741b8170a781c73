"""One shard in PostgreSQL as a mover writes to it: a connection of its own, and short transactions.

Promises: each write is one transaction that checks the token before it locks or writes anything else. It waits for a
lock 20 ms at most, then gives up and begins again, for ten seconds. So no writer waits behind a mover that waits.
No write is made on another timeline than the noted one.
Refuses: a database that is not the shard of this place.
Source: https://www.postgresql.org/docs/current/runtime-config-client.html
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, TypeAlias, TypeVar

from psycopg.sql import SQL
from sqlalchemy.engine import make_url

from apportion.errors import ApportionError, BadSnapshot, InvalidInput, StoreDenied, StoreUnavailable
from apportion.model.epoch import FencingToken
from apportion.shards.move_group import MoverWork
from apportion.shards.postgres.functions import LOCK_CLASS
from apportion.shards.postgres.mover_transaction import MARK, READ, REPLICA, WRITE
from apportion.shards.postgres.schema import GUARD, mover_mark
from apportion.shards.postgres.script import COMMIT, ConnectionFailed, Statement, asked, script, transaction
from apportion.shards.postgres.timeline import TIMELINE, timeline_in
from apportion.shards.records import REPLICATION_URL
from apportion.shards.shard_url import address_in
from apportion.shards.slot_rows import DAMAGE
from apportion.shards.timeline.timeline import Timeline, went_back
from apportion.stores.postgres.driver import Connection, psycopg
from apportion.stores.postgres.errors import unreachable
from apportion.stores.postgres.wire import cut

LOCK_WAIT_SECONDS = 10.0
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.005, 0.1
_CUT_SECONDS = 0.05

# A host that is cut off is given up after 11 s.
_PATIENCE: dict[str, Any] = {
    "client_encoding": "utf8",
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_HELD = frozenset({"55P03", "55006", "40P01", "40001"})

# Codes of errors that may pass: of a standby, which may be promoted soon, and of limits of a role that act before our
# settings.
_PASSING = frozenset({"25006", "25P03", "25P04"})
_FULL = "; free some space on its disk, or abort the move"
_RETRY_HINT = "Nothing was changed. Run the same call again to go on."

# A prepared transaction has no process. All its locks have one virtual transaction, and one of them names its number.
_HOLDERS = f"""SELECT l.pid, p.gid, coalesce(a.usename, p.owner, a.backend_type),
    extract(epoch FROM max(now() - coalesce(a.xact_start, p.prepared)))::int
    FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    LEFT JOIN pg_locks own ON l.pid IS NULL AND own.pid IS NULL AND own.locktype = 'transactionid'
    AND own.virtualtransaction = l.virtualtransaction
    LEFT JOIN pg_prepared_xacts p ON p.transaction = own.transactionid
    WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (l.locktype = 'advisory' AND l.classid = {LOCK_CLASS}
    OR l.relation IN (SELECT tgrelid FROM pg_trigger WHERE tgname = 'apportion_insert'))
    GROUP BY 1, 2, 3 ORDER BY 4 DESC NULLS LAST LIMIT 3"""  # noqa: S608 - the number is ours
OWN_TABLES = "Let the role of the mover own the set's tables."

Result = TypeVar("Result")
Work: TypeAlias = Callable[[Connection], Awaitable[Result]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlace:
    """The database of a shard, and the set that it belongs to.

    With a `timeline`, a server on another one is refused. `replication_url` is the URL for servers of other shards, not
    yet filled in from the environment. If it is "", they use the address.
    """

    set_name: str
    shard: str
    address: str = field(repr=False)
    timeline: Timeline | None = None
    replication_url: str = field(default="", repr=False)

    @property
    def replication_address(self) -> str:
        """The address at which the server of another shard reaches this one. Errors are those of `address_in`."""
        return address_in(self.replication_url, REPLICATION_URL) if self.replication_url else self.address


class ShardServer:
    """A connection to a shard; it is opened by the first call, and again after it was lost."""

    def __init__(self, place: ServerPlace) -> None:
        self.place: ServerPlace = place
        self.name: str = f"shard {place.shard}"
        self.timeline: Timeline | None = None  # that of the server that was reached last
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()

    async def read(self, work: Work[Result]) -> Result:
        """Run reads that see one state of the database."""

        async def _once(connection: Connection) -> Result:
            async with transaction(connection, READ):
                return await work(connection)

        return await self._tried(_once)

    async def ask(self, *statements: Statement) -> list[list[Any]]:
        """Run reads that see one state of the database, all in one wait. Return the rows of each."""
        return await self._tried(lambda connection: asked(connection, READ, *statements))

    async def ask_if_there(self, *statements: Statement) -> list[list[Any]] | None:
        """Do as `ask`. Return None if one of the tables is absent."""

        async def _once(connection: Connection) -> list[list[Any]] | None:
            try:
                return await asked(connection, READ, *statements)
            except psycopg.errors.UndefinedTable:
                return None

        return await self._tried(_once)

    async def write(
        self,
        group: MoverWork,
        token: FencingToken,
        work: Work[Result],
        *,
        is_bare: bool = False,
        within: float | None = None,
    ) -> Result:
        """Run a durable transaction of a mover. `is_bare` lets no trigger and no foreign key act on its rows.

        `within` is the longest time of its tries while others hold a lock, in seconds.
        """
        shown = replace(token, resource=f"shards/{self.place.set_name}/{group.move}")
        marked, guarded = Statement(MARK, (mover_mark(shown),)), Statement(*GUARD.statement(shown))
        opening = [WRITE, *([REPLICA] if is_bare else []), marked, guarded]

        async def _once(connection: Connection) -> Result:
            async with transaction(connection, *opening) as opened:
                *_, [(_, number)], accepted = opened
                self._require_timeline(int(number, 16))
                if not accepted:
                    await GUARD.check_async(connection, shown)
                return await work(connection)

        return await self._tried(_once, within)

    async def change(self, group: MoverWork, token: FencingToken, *statements: Statement) -> None:
        """Run statements as a durable transaction of a mover, all of them and their commit in one wait."""
        await self.write(group, token, lambda connection: script(connection, *statements, COMMIT))

    async def rehearse(self, work: Work[Result]) -> Result:
        """Run writes that are rolled back at their end."""

        async def _once(connection: Connection) -> Result:
            async with transaction(connection, WRITE, commits=False):
                return await work(connection)

        return await self._tried(_once)

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _tried(self, step: Work[Result], within: float | None = None) -> Result:
        """Run a step again and again while others hold a lock, up to the longest wait."""
        within = LOCK_WAIT_SECONDS if within is None else within
        deadline, pause = monotonic() + within, _SHORTEST_PAUSE_SECONDS
        async with self._lock:
            while True:
                try:
                    return await _run(step, await self._opened())
                except psycopg.Error as error:
                    if error.sqlstate not in _HELD or monotonic() >= deadline:
                        raise await self._translated(error, within) from error
                except asyncio.CancelledError:
                    await self.close()
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _opened(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = await self._open()
        return self._connection

    async def _open(self) -> Connection:
        url = make_url(self.place.address)
        named = {"host": url.host, "port": url.port, "user": url.username, "password": url.password}
        options: dict[str, Any] = {"application_name": "apportion mover", **_PATIENCE}
        options |= {"dbname": url.database, **named, **url.query}
        # A pooler lends connections with prepared statements of other clients.
        options |= {"autocommit": True, "prepare_threshold": None}
        try:
            connection: Connection = await psycopg.AsyncConnection.connect(**options)
        except psycopg.OperationalError as error:
            raise unreachable(self.name, f"{error}", type(error).__name__) from error
        try:
            await self._require(connection)
        except (psycopg.Error, ApportionError, asyncio.CancelledError):
            await connection.close()
            raise
        return connection

    async def _require(self, connection: Connection) -> None:
        """Raise unless the database says that it is the shard of this place."""
        read = await rows(connection, f"SELECT set_id, shard, {TIMELINE} FROM apportion.shard_meta")  # noqa: S608 - ours
        found = [tuple(each[:2]) for each in read]
        if found != [(self.place.set_name, self.place.shard)]:
            shown = " and ".join(f"shard {shard} of set {name}" for name, shard in found) or "no shard of a set"
            hint = "Look at the URL of the shard: apportion shards status URL SET"
            expected = f"{self.name} of set {self.place.set_name}"
            raise InvalidInput(f"database of {self.name}", shown, expected, hint)
        self.timeline = timeline_in(*read[0][2:])
        self._require_timeline(self.timeline.number)

    def _require_timeline(self, number: int) -> None:
        """Raise unless the server is on the noted timeline. A standby passes, because it takes no writes."""
        noted = self.place.timeline
        if noted is None or self.timeline is None:
            return
        found = replace(self.timeline, number=number)
        if not found.is_part_of(noted):
            raise went_back((self.place.set_name, self.place.shard), noted, found, ())

    async def _translated(self, error: psycopg.Error, within: float) -> ApportionError:
        """Return our error for an error of the server. With an error of the driver, a mover would not end its fence."""
        code = error.sqlstate or ""
        if code in _HELD:
            return StoreUnavailable(self.name, await self._holders(within))
        if code == "42501" and "session_replication_role" in str(error):
            hint = "As an administrator: GRANT SET ON PARAMETER session_replication_role TO the role of the mover."
            return StoreDenied(self.name, "its role may not write rows without their triggers", hint)
        if code == "42501" or code.startswith("28"):
            return StoreDenied(self.name, error.diag.message_primary or f"{error}", OWN_TABLES)
        if code in ("42P01", "42703", "3F000"):
            return BadSnapshot(f"tables of {self.name}", f"{error}", "those that apportion makes", DAMAGE)
        is_lost = not code and isinstance(error, psycopg.OperationalError)
        if is_lost or code in _PASSING or code[:2] in ("08", "53", "57", "58"):
            await self.close()
            said = error.diag.message_primary or f"{error}".strip().partition("\n")[0].rstrip(".")
            return StoreUnavailable(self.name, f"{said}{_FULL if code == '53100' else ''}", _RETRY_HINT)
        hint = "Compare the tables and the settings of the set's shards. Then run the same call again."
        return InvalidInput(f"reply of {self.name}", error.diag.message_primary or f"{error}", "success", hint)

    async def _holders(self, within: float) -> str:
        """Return the reason of a wait: the oldest transactions with a lock of a slot or a sharded table."""
        reason = f"others held a lock of its tables for {within:g} s"
        with suppress(psycopg.Error):
            named = _named(await rows(await self._opened(), _HOLDERS))
            return f"{reason}: {named}" if named else reason
        return reason


async def require_no_holder(connection: Connection, name: str, seconds: int) -> None:
    """Raise `StoreUnavailable` if a transaction of at least `seconds` has a lock of a sharded table.

    `name` is the shard. A role without `pg_read_all_stats` does not see the age of the transactions of other roles, and
    finds none.
    """
    old = [each for each in await rows(connection, _HOLDERS) if each[3] is not None and each[3] >= seconds]
    if old:
        raise StoreUnavailable(name, f"others hold a lock of its tables: {_named(old)}")


def _named(holders: Sequence[tuple[int | None, str | None, str, int | None]]) -> str:
    said = []
    for pid, prepared, user, age in holders:
        holder = f"process {pid}" if prepared is None else f"the prepared transaction {prepared}"
        said.append(f"{holder} of {user}" + (f" for {age} s" if age else ""))
    return ", ".join(said)


async def _run(step: Work[Result], connection: Connection) -> Result:
    """Run a step. A cancellation cuts the connection, because the driver would wait for the server's consent.

    An error of another connection passes as `ConnectionFailed`, because the step has to begin again there.
    """
    work = asyncio.ensure_future(step(connection))
    try:
        return await asyncio.shield(work)
    except ConnectionFailed as failed:
        if failed.connection is connection:
            raise failed.error from failed.error.__cause__
        raise
    except asyncio.CancelledError:
        cut(connection)
        limit = asyncio.get_running_loop().call_later(_CUT_SECONDS, work.cancel)  # it may wait for another server
        while not work.done():
            with suppress(asyncio.CancelledError):  # the caller may be cancelled again
                await asyncio.wait([work])
        limit.cancel()
        if not work.cancelled():
            work.exception()
        raise


async def rows(connection: Connection, statement: str, *values: object) -> list[Any]:
    """Run a statement of ours; return its rows."""
    cursor = await connection.execute(SQL(statement), values)
    return await cursor.fetchall() if cursor.description else []


async def count(connection: Connection, statement: str, *values: object) -> int:
    """Run a statement of ours; return how many rows it changed."""
    return (await connection.execute(SQL(statement), values)).rowcount
