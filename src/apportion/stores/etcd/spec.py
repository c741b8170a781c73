"""The etcd store, as the catalog finds it: the parts of its URL, and its client as an extra.

`etcds` speaks TLS and always checks the server's certificate and name. `ca` names the trusted authority; without it,
the system's authorities are trusted. `cert` and `key` are our own certificate and key.
"""

from apportion.errors import InvalidInput, MissingExtra
from apportion.runtime.clock import Clock
from apportion.stores.administration import Administration
from apportion.stores.api import CoordinationStore
from apportion.stores.spec import StoreSpec
from apportion.stores.url import StoreUrl


async def _connect(url: StoreUrl, clock: Clock) -> CoordinationStore:
    _check(url)
    from apportion.stores.etcd.store import EtcdStore  # noqa: PLC0415 - its client is an extra

    return await EtcdStore.connected(url, clock)


def _administration(url: StoreUrl) -> Administration:
    _check(url)
    from apportion.stores.etcd.administration import EtcdAdministration  # noqa: PLC0415 - its client is an extra

    return EtcdAdministration(url)


def _check(url: StoreUrl) -> None:
    options = ("ca", "cert", "key") if url.scheme == "etcds" else ()
    url.expect(options=options, parts=("user", "password", "host", "port"))
    example = f"Write for example {url.scheme}://host:2379,other:2379?namespace=crawl"
    if not url.hosts or not all(host for host, _ in url.hosts):
        raise InvalidInput("store URL", str(url), "the hosts of its servers", example)
    if url.password and not url.user:
        raise InvalidInput("user of the store URL", url.user, "a name before the password", example)
    try:
        import httpx  # noqa: F401, PLC0415 - only to see that it is there
    except ImportError as error:
        raise MissingExtra("httpx, the HTTP client for etcd,", "etcd") from error


SPEC = StoreSpec(
    name="etcd",
    schemes=("etcd", "etcds"),
    example="etcd://host:2379,other:2379?namespace=crawl",
    promises=frozenset({"durable", "fencing", "gapless_watch", "linearizable", "multi_host"}),
    connect=_connect,
    administration=_administration,
    is_clear=lambda url: url.scheme == "etcd",
    encryption="write etcds:// instead of etcd://.",
)
