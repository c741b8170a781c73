"""StoreSpec: the last value in a store's `spec` module, through which the catalog finds the store."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from apportion.errors.brief import brief
from apportion.runtime.clock import Clock
from apportion.stores.administration import Administration
from apportion.stores.api import CoordinationStore, Need
from apportion.stores.task_api import TaskStore
from apportion.stores.url import StoreUrl


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSpec:
    """One kind of store: the schemes of its URLs, and the functions that connect to it and administer it.

    `connect` and `administration` refuse unknown options (`StoreUrl.expect`). `example` is a URL for the documents.
    `is_clear` returns whether requests to another host may go unencrypted. `encryption` is the change of the URL that
    encrypts them. `promises` are the guarantees of a store of this kind that is set up well. When a caller needs a
    guarantee that its store lacks, the message names the stores that promise it. `tasks` connects to the tasks of a
    store. It is None if stores of this kind keep no tasks.
    """

    name: str
    schemes: tuple[str, ...]
    example: str
    connect: Callable[[StoreUrl, Clock], Awaitable[CoordinationStore]]
    administration: Callable[[StoreUrl], Administration]
    is_clear: Callable[[StoreUrl], bool] = lambda _: False
    encryption: str = ""
    promises: frozenset[Need] = frozenset()
    tasks: Callable[[StoreUrl, Clock], Awaitable[TaskStore]] | None = None
