"""pgqueuer: a queue in PostgreSQL over asyncpg. Its worker drains in batches of 100, with no limit of concurrency."""

import json
from typing import Any

from bench.contender import installed, missing
from bench.queues import AT_ONCE
from bench.queues.postgres_by_hand import BATCH, arguments

VERSION, ABSENT = installed("pgqueuer"), missing("pgqueuer")


class Pgqueuer:
    """The queue in one database, of which it is the only user."""

    def __init__(self, dsn: str, *, tasks: int) -> None:
        self.name, self.tasks = VERSION, tasks
        self.handled: list[int] = []
        self._dsn = dsn

    async def install(self) -> None:
        """Make its tables."""
        connection, queries = await self._opened()
        await queries.install()
        await connection.close()

    async def fill(self) -> None:
        connection, queries = await self._opened()
        for begin in range(0, self.tasks, AT_ONCE):
            some = [arguments(number) for number in range(begin, min(begin + AT_ONCE, self.tasks))]
            await queries.enqueue(["handle"] * len(some), some, [0] * len(some))
        await connection.close()

    async def drain(self) -> None:
        from pgqueuer.qm import QueueManager  # noqa: PLC0415 - perhaps not installed
        from pgqueuer.types import QueueExecutionMode  # noqa: PLC0415

        connection, queries = await self._opened()
        manager = QueueManager(queries)

        async def handle(job: Any) -> None:  # noqa: ANN401 - foreign
            self.handled += json.loads(job.payload)

        manager.entrypoint("handle")(handle)
        await manager.run(batch_size=BATCH, mode=QueueExecutionMode.drain)
        await connection.close()
        connection, queries = await self._opened()
        left = await connection.fetchval("SELECT count(*) FROM pgqueuer")
        await connection.close()
        if left:
            raise RuntimeError(f"{left} tasks are left after a drain")

    async def _opened(self) -> tuple[Any, Any]:
        import asyncpg  # noqa: PLC0415
        from pgqueuer.db import AsyncpgDriver  # noqa: PLC0415
        from pgqueuer.queries import Queries  # noqa: PLC0415

        connection = await asyncpg.connect(self._dsn)
        return connection, Queries(AsyncpgDriver(connection))
