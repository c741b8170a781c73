"""The PostgreSQL store, as the catalog finds it. The driver is an extra, loaded when a URL names this store."""

from apportion.runtime.clock import Clock
from apportion.stores.administration import Administration
from apportion.stores.api import CoordinationStore
from apportion.stores.spec import StoreSpec
from apportion.stores.task_api import TaskStore
from apportion.stores.url import StoreUrl

ENCRYPTED = ("require", "verify-ca", "verify-full")  # values of sslmode; others accept clear text


async def _connect(url: StoreUrl, clock: Clock) -> CoordinationStore:
    from apportion.stores.postgres.store import connected  # noqa: PLC0415 - its client is an extra

    return await connected(url, clock)


async def _tasks(url: StoreUrl, clock: Clock) -> TaskStore:
    from apportion.stores.postgres.tasks.store import connected  # noqa: PLC0415 - its client is an extra

    return await connected(url, clock)


def _administration(url: StoreUrl) -> Administration:
    from apportion.stores.postgres.administration import PostgresAdministration  # noqa: PLC0415 - its client is an extra

    return PostgresAdministration(url)


SPEC = StoreSpec(
    name="postgresql",
    schemes=("postgresql",),
    example="postgresql://user@host:5432/database",
    promises=frozenset({"durable", "fencing", "gapless_watch", "linearizable", "multi_host"}),
    connect=_connect,
    tasks=_tasks,
    administration=_administration,
    is_clear=lambda url: url.option("sslmode") not in ENCRYPTED,
    encryption="add sslmode=verify-full to the URL, and sslrootcert= if the authority is your own.",
)
