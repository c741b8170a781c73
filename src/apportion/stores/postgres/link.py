"""One connection to a PostgreSQL server, opened again after a loss. All handles of a process in one store share it.

Promises: every new connection looks at its server. A link behind a pooler looks again every few seconds. Any link looks
again after a sign that the store went back. A link may close its idle connection. When a request gets its turn, its
handle is checked again; a request of a closed handle is not sent.
Refuses: several statements at a time.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from apportion.errors import ApportionError, StoreClosed, StoreUnavailable
from apportion.runtime.endings import is_uncancelled, outlasting
from apportion.runtime.prompt_start import is_prompt_start
from apportion.stores.postgres.door import REQUEST_SECONDS, Door, Result, Server, Transaction
from apportion.stores.postgres.driver import Connection, Parameters, Row, psycopg
from apportion.stores.postgres.ear import Ear
from apportion.stores.postgres.wire import PostgresNoReply, cut, is_lost

LOOK_SECONDS = 2.0
_QUICK_SECONDS = 0.005
_MEASUREMENTS = 8


class PostgresLink:
    """A connection that is opened when needed, looks at its server, and is opened again after a loss.

    `patience` returns the longest time for a statement at this moment. After `rest_seconds` without a request, the
    connection is closed. `ear` receives hints while no statement is running.
    """

    round_trip_seconds: float

    def __init__(
        self,
        door: Door,
        *,
        patience: Callable[[], float] = lambda: REQUEST_SECONDS,
        rest_seconds: float | None = None,
        ear: Ear | None = None,
    ) -> None:
        self.server: Server | None = None
        self.round_trip_seconds = float("inf")
        self._door = door
        self._patience = patience
        self._rest_seconds = rest_seconds
        self._ear = ear
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._pid = os.getpid()
        self._closed = False
        self._looked_at = self._used_at = float("-inf")
        self._resting: asyncio.TimerHandle | None = None

    @property
    def ours(self) -> bool:
        """Whether this process opened the link. A forked child has only inherited it."""
        return os.getpid() == self._pid

    async def ask(
        self, statement: str, parameters: Parameters = (), *, allowed: Callable[[], None] | None = None
    ) -> list[Row]:
        """Run a statement that may safely run twice. It runs once more if its connection broke."""
        with suppress(PostgresNoReply):
            return await self.send(statement, parameters, allowed=allowed)
        try:
            return await self.send(statement, parameters, allowed=allowed)
        except PostgresNoReply as error:
            raise StoreUnavailable(self._door.name, error.reason) from error

    async def send(
        self, statement: str, parameters: Parameters = (), *, allowed: Callable[[], None] | None = None
    ) -> list[Row]:
        """Run a statement once; `PostgresNoReply` if its effect is unknown.

        `allowed` raises an error if the statement must not be sent any more. If the caller is cancelled, the statement
        runs on. An interruption would need one more connection, or would end this one.
        """

        async def _run(connection: Connection) -> list[Row]:
            return await self._door.run(connection, statement, parameters, seconds=self._patience())

        if is_prompt_start() and _is_free(self):
            return await self._send(_run, allowed)
        return await self._shielded(_run, allowed)

    async def transact(
        self, work: Callable[[Transaction], Awaitable[Result]], *, allowed: Callable[[], None] | None = None
    ) -> Result:
        """Run work in one transaction, all of it or nothing. Otherwise as `send`."""
        return await self._shielded(
            lambda connection: self._door.transact(connection, work, seconds=self._patience()), allowed
        )

    async def open(self) -> Server:
        """Connect if needed, look at the server, and measure its round trip; make the schema if there is none."""
        await self._await_turn()
        try:
            self._require_open()
            connection = await self._connected()
            server = await self._look(connection)
            await self._measure(connection, server)
            return server
        finally:
            self._end_turn()

    def doubt(self) -> None:
        """Look at the server before the next statement: the server may have changed."""
        self._looked_at = float("-inf")

    async def close(self) -> None:
        """Close for good."""
        self._closed = True
        if self._connection is not None and self._turn.locked():
            cut(self._connection)
        async with self._turn:
            await self._let_go()
        if self._resting is not None:
            self._resting.cancel()

    async def _shielded(
        self, run: Callable[[Connection], Awaitable[Result]], allowed: Callable[[], None] | None
    ) -> Result:
        self._require_open()  # a forked child has no event loop to wait in
        if is_uncancelled():
            return await self._send(run, allowed)
        sending = asyncio.get_running_loop().create_task(self._send(run, allowed))
        sending.add_done_callback(_heard)
        return await outlasting(sending)

    async def _send(self, run: Callable[[Connection], Awaitable[Result]], allowed: Callable[[], None] | None) -> Result:
        await self._await_turn()
        try:
            self._require_open()
            if allowed is not None:
                allowed()
            connection = await self._connected()
            if self._is_doubtful:
                await self._look(connection)
            return await run(connection)
        finally:
            self._end_turn()

    async def _await_turn(self) -> None:
        """Wait for the turn of a request, because a connection answers one at a time; `StoreUnavailable` after 5 s."""
        self._require_open()
        if not (self._turn.locked() or self._waiting):
            await self._turn.acquire()  # at once
            return
        self._waiting += 1
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await self._turn.acquire()
        except TimeoutError as error:
            raise StoreUnavailable(self._door.name, f"requests before this one took {REQUEST_SECONDS:g} s") from error
        finally:
            self._waiting -= 1

    def _end_turn(self) -> None:
        self._used_at = time.monotonic()
        if self._ear is not None and self._connection is not None:
            self._ear.listen(self._connection)
        if self._rest_seconds is not None and self._resting is None and self._connection is not None:
            self._resting = asyncio.get_running_loop().call_later(self._rest_seconds, self._rested)
        self._turn.release()

    def _require_open(self) -> None:
        if not self.ours:
            raise StoreClosed(self._door.name, "it belongs to the parent of this forked process")
        if self._closed:
            raise StoreClosed(self._door.name)

    async def _connected(self) -> Connection:
        """Return the open connection, or a new one to a server that was admitted."""
        connection = self._connection
        if connection is not None and self._ear is not None:
            self._ear.rest(connection)
        if connection is not None and not is_lost(connection):
            return connection
        await self._let_go()
        seconds = self._patience()
        connection = await self._door.connect(seconds=seconds)
        try:
            server = await self._door.look(connection, seconds=seconds)
            await self._door.admit(connection, server, seconds=seconds)
            if self._ear is not None and not server.pooled:
                await self._ear.begin(connection)
            self._connection, self.server = connection, server
            self._looked_at = time.monotonic()
        except PostgresNoReply as error:
            raise StoreUnavailable(self._door.name, error.reason) from error
        finally:
            if self._connection is not connection:
                await connection.close()
        return connection

    @property
    def _is_doubtful(self) -> bool:
        """Whether this connection may now lead to another server."""
        since = time.monotonic() - self._looked_at
        return since == float("inf") or (self.server is not None and self.server.pooled and since >= LOOK_SECONDS)

    async def _look(self, connection: Connection) -> Server:
        """Look at the server once more; admit it if it is another server or its state was doubted."""
        try:
            server = await self._door.look(connection, seconds=self._patience())
            if self._looked_at == float("-inf") or self.server is None or server.fingerprint != self.server.fingerprint:
                await self._door.admit(connection, server, seconds=self._patience())
        except ApportionError:
            await self._let_go()  # a standby must not get another request
            raise
        self.server, self._looked_at = server, time.monotonic()
        return server

    async def _measure(self, connection: Connection, server: Server) -> None:
        """Keep the shortest round trip ever measured; measure several times if the first was not short."""
        self.round_trip_seconds = min(self.round_trip_seconds, server.round_trip_seconds)
        for _ in range(_MEASUREMENTS):
            if self.round_trip_seconds < _QUICK_SECONDS:
                return
            again = await self._door.look(connection, seconds=self._patience())
            self.round_trip_seconds = min(self.round_trip_seconds, again.round_trip_seconds)

    def _rested(self) -> None:
        """Close a connection that has rested for long enough; else check again later."""
        self._resting = None
        left = self._used_at + (self._rest_seconds or 0.0) - time.monotonic()
        if left > 0 or self._turn.locked():
            self._resting = asyncio.get_running_loop().call_later(max(left, 1.0), self._rested)
        elif self._connection is not None:
            closing = asyncio.get_running_loop().create_task(self._close_resting())
            closing.add_done_callback(_heard)

    async def _close_resting(self) -> None:
        async with self._turn:
            await self._let_go()

    async def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._ear is not None:
                self._ear.rest(connection)
                self._ear.distrust()
            with suppress(psycopg.Error):
                await connection.close()


def _heard(task: "asyncio.Task[Result]") -> None:
    """Take the result of a task, so that no error is logged if its caller is gone."""
    if not task.cancelled():
        task.exception()


def _is_free(link: PostgresLink) -> bool:
    """Whether a link can write a request at once, without a task of the event loop."""
    connection = link._connection
    is_held = link._turn.locked() or link._waiting or link._closed or link._ear is not None
    return not (is_held or connection is None or link._is_doubtful or is_lost(connection))
