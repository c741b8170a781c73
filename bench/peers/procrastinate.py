"""procrastinate: a queue in PostgreSQL over psycopg. Its worker runs 10 tasks at a time, and deletes what is done."""

from typing import Any

from bench.contender import installed, missing
from bench.queues import AT_ONCE

VERSION, ABSENT = installed("procrastinate"), missing("procrastinate")
CONCURRENCY = 10


class Procrastinate:
    """The queue in one database, of which it is the only user."""

    def __init__(self, dsn: str, *, tasks: int) -> None:
        self.name, self.tasks = VERSION, tasks
        self.handled: list[int] = []
        self._dsn = dsn

    async def install(self) -> None:
        """Make its tables."""
        app, _ = self._made()
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def fill(self) -> None:
        app, handle = self._made()
        async with app.open_async():
            for begin in range(0, self.tasks, AT_ONCE):
                numbers = range(begin, min(begin + AT_ONCE, self.tasks))
                await handle.batch_defer_async(*({"number": number} for number in numbers))

    async def drain(self) -> None:
        app, _ = self._made()
        async with app.open_async():
            await app.run_worker_async(
                wait=False, concurrency=CONCURRENCY, delete_jobs="always", install_signal_handlers=False
            )
        app, _ = self._made()
        async with app.open_async():
            left = list(await app.job_manager.list_jobs_async())
        if left:
            raise RuntimeError(f"{len(left)} tasks are left after a drain")

    def _made(self) -> tuple[Any, Any]:
        from procrastinate import App, PsycopgConnector  # noqa: PLC0415 - perhaps not installed

        app = App(connector=PsycopgConnector(conninfo=self._dsn))

        async def handle(number: int) -> None:
            self.handled.append(number)

        return app, app.task(name="handle")(handle)
