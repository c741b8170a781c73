"""Hints of PostgreSQL: a connection that listens, so that a watch need not ask again and again.

Promises: `arrive` says whether hints got through since this connection began, which a hint of our own shows (a
transaction pooler accepts LISTEN and delivers nothing). What a hint says is not read.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

from apportion.errors import ApportionError
from apportion.stores.postgres import statements as sql
from apportion.stores.postgres.driver import Connection, psycopg
from apportion.stores.postgres.link import Link, NoReply

_AWAY_SECONDS = 0.5


class Hints:
    """Listens, from the first time that somebody watches until it is closed."""

    def __init__(self, link: Link, heard: Callable[[], None], *, pooled: bool) -> None:
        self.arrive = False
        self._link = link
        self._heard = heard
        self._pooled = pooled
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listen from now on, if a hint can arrive at all; `heard` is called at each."""
        if self._task is None and not self._pooled:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop listening."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            with suppress(ApportionError, NoReply, psycopg.Error):
                connection = await self._link.connect()
                try:
                    await self._listen(connection)
                finally:
                    self.arrive = False
                    await connection.close()
            await asyncio.sleep(_AWAY_SECONDS * random.uniform(0.5, 1.0))  # noqa: S311 - no secret

    async def _listen(self, connection: Connection) -> None:
        await self._link.run(connection, sql.LISTEN)
        await self._link.ask(sql.HINT)
        async for _ in connection.notifies():
            self.arrive = True
            self._heard()
