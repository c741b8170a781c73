"""The Redis store, as the catalog finds it. The client of Redis is an extra, loaded when a URL names this store."""

from apportion.runtime.clock import Clock
from apportion.stores.administration import Administration
from apportion.stores.api import CoordinationStore
from apportion.stores.spec import StoreSpec
from apportion.stores.url import Part, StoreUrl

_OPTIONS = ("ca",)
_PARTS: tuple[Part, ...] = ("user", "password", "host", "port", "path")


async def _connect(url: StoreUrl, clock: Clock) -> CoordinationStore:
    url.expect(options=_OPTIONS, parts=_PARTS)
    from apportion.stores.redis.store import connected  # noqa: PLC0415 - its client is an extra

    return await connected(url, clock)


def _administration(url: StoreUrl) -> Administration:
    url.expect(options=_OPTIONS, parts=_PARTS)
    from apportion.stores.redis.administration import RedisAdministration  # noqa: PLC0415 - its client is an extra

    return RedisAdministration(url)


SPEC = StoreSpec(
    name="redis",
    schemes=("redis", "rediss"),
    example="redis://:password@127.0.0.1:6379/0",
    promises=frozenset({"multi_host"}),
    connect=_connect,
    administration=_administration,
    is_clear=lambda url: url.scheme == "redis",
    encryption="write rediss:// instead of redis://.",
)
