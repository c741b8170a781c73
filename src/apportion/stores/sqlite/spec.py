"""The SQLite store, as the catalog finds it."""

from apportion.runtime.clock import Clock
from apportion.stores.administration import Administration
from apportion.stores.api import CoordinationStore
from apportion.stores.spec import StoreSpec
from apportion.stores.task_api import TaskStore
from apportion.stores.url import StoreUrl


async def _connect(url: StoreUrl, clock: Clock) -> CoordinationStore:
    from apportion.stores.sqlite.store import connected  # noqa: PLC0415 - a list of the stores must not load it

    return await connected(url, clock)


async def _tasks(url: StoreUrl, clock: Clock) -> TaskStore:
    from apportion.stores.sqlite.tasks import connected  # noqa: PLC0415 - see above

    return await connected(url, clock)


def _administration(url: StoreUrl) -> Administration:
    from apportion.stores.sqlite.administration import SqliteAdministration  # noqa: PLC0415 - see above

    return SqliteAdministration(url)


SPEC = StoreSpec(
    name="sqlite",
    schemes=("sqlite",),
    example="sqlite:///work.db",
    promises=frozenset({"durable", "fencing", "gapless_watch", "linearizable"}),
    connect=_connect,
    tasks=_tasks,
    administration=_administration,
)
