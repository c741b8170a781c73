"""StoreSpec: what a file of this room ends in, so that the catalog finds it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from apportion.runtime.clock import Clock
from apportion.stores.administration import Administration
from apportion.stores.api import CoordinationStore, Need
from apportion.stores.url import StoreUrl


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSpec:
    """How a kind of store is found by the scheme of a URL, connected to, and looked after.

    `connect` and `administration` refuse options that they do not know (`StoreUrl.expect`). `example` is a URL as a
    reader would write it. `is_clear` says whether requests to another host may go unencrypted. `encryption` is the
    change of the URL that ends it. `promises` are the guarantees that a store of this kind gives when it is set up
    well; the message to a caller who needs another store names them.
    """

    name: str
    schemes: tuple[str, ...]
    example: str
    connect: Callable[[StoreUrl, Clock], Awaitable[CoordinationStore]]
    administration: Callable[[StoreUrl], Administration]
    is_clear: Callable[[StoreUrl], bool] = lambda _: False
    encryption: str = ""
    promises: frozenset[Need] = frozenset()
