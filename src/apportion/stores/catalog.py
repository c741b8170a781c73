"""The catalog of stores: each `SPEC` in a `spec.py` of a folder of this room, and the stores of other packages.

Other packages add their stores through the entry point group `apportion.stores`, with an entry `scheme =
"module:SPEC"`. A `SPEC` imports its store and client only when a URL names its scheme. So unused clients need not be
installed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from apportion.errors import InvalidInput, NotPromised, StoreUnavailable
from apportion.runtime.clock import Clock, SystemClock
from apportion.runtime.endings import or_undo, whole
from apportion.stores.api import CoordinationStore, Need
from apportion.stores.clear_text import say_clear_text
from apportion.stores.spec import StoreSpec
from apportion.stores.task_api import TaskStore
from apportion.stores.url import StoreUrl, parse

if TYPE_CHECKING:
    from apportion.stores.administration import Administration

ENTRY_POINTS = "apportion.stores"
_INSPECT_SECONDS = 5.0
CONNECT_HERE: ContextVar[Callable[[str], Coroutine[object, object, CoordinationStore]] | None] = ContextVar(
    "connect_here", default=None
)
"""The function by which a simulated process connects to the store of its world. None in a real process.

The store of a world has every guarantee.
"""
CONNECT_TASKS_HERE: ContextVar[Callable[[str], Coroutine[object, object, TaskStore]] | None] = ContextVar(
    "connect_tasks_here", default=None
)
"""The function by which a simulated process connects to the tasks of its world. None in a real process."""


async def connect(url: str, *, needs: Collection[Need] = (), clock: Clock | None = None) -> CoordinationStore:
    """Connect to the store of a URL, in the running event loop.

    `needs` are the guarantees that the caller relies on. `NotPromised` when the store, as it is set up, lacks one.
    `clock` is the clock of the machine unless a test passes its own. `UnknownOption` for an unknown scheme or option.
    `MissingExtra` when the store's client is not installed. `StoreUnavailable` when no server answers, `StoreDenied`
    when the store refuses the user. A simulated process gets the store of its world, which has all guarantees.
    """
    parsed = parsed_url(url)
    if (connect_here := CONNECT_HERE.get()) is not None:
        return await connect_here(str(parsed))
    spec = get(parsed.scheme)
    say_clear_text(spec, parsed)
    store = await whole(spec.connect(parsed, clock or SystemClock()), lambda opened: opened.close())
    async with or_undo(store.close):
        if (need := store.capabilities().lacking(needs)) is not None:
            raise _not_promised(parsed, need)
    return store


async def connect_tasks(url: str, *, clock: Clock | None = None) -> TaskStore:
    """Connect to the tasks in the store of a URL, in the running event loop; `clock` is for tests.

    Errors are those of `connect`; `NotPromised` for a store that keeps no tasks.
    """
    parsed = parsed_url(url)
    if (connect_here := CONNECT_TASKS_HERE.get()) is not None:
        return await connect_here(str(parsed))
    spec = get(parsed.scheme)
    if spec.tasks is None:
        able = {each.name for each in _own().values() if each.tasks is not None}
        raise NotPromised(str(parsed), "tasks", able=able)
    say_clear_text(spec, parsed)
    return await whole(spec.tasks(parsed, clock or SystemClock()), lambda opened: opened.close())


@asynccontextmanager
async def opened(url: str, *, needs: Collection[Need] = ()) -> AsyncIterator[CoordinationStore]:
    """Connect to the store of a URL, and close it at the end; `InvalidInput` when the store does not exist yet.

    Other errors are those of `connect`.
    """
    await require_made(url)
    store = await connect(url, needs=needs)
    try:
        yield store
    finally:
        await store.close()


async def require_made(url: str) -> None:
    """Raise `InvalidInput` when the store does not exist yet: `connect` would create one at a mistyped URL.

    The store of a simulated process always exists.
    """
    if CONNECT_HERE.get() is not None:
        return
    try:
        async with asyncio.timeout(_INSPECT_SECONDS):
            absence = await administration(url).absence()
    except TimeoutError:
        raise StoreUnavailable(shown_url(url), f"no answer within {_INSPECT_SECONDS:g} s") from None
    if absence is not None:
        raise InvalidInput("store", shown_url(url), f"an existing store ({absence.found})", "Check the URL.")


def administration(url: str) -> "Administration":
    """Return the administration of the store of a URL, without a connection."""
    parsed = parsed_url(url)
    return get(parsed.scheme).administration(parsed)


def check_url(url: str, *, needs: Collection[Need] = ()) -> None:
    """Refuse an invalid URL before anything is opened. Errors are those of `administration`.

    `NotPromised` for a kind of store that never has one of the guarantees in `needs`.
    """
    parsed = parsed_url(url)
    if CONNECT_HERE.get() is None:
        spec = get(parsed.scheme)
        spec.administration(parsed)
        for need in needs:
            if need not in spec.promises:
                raise _not_promised(parsed, need)


def _not_promised(url: StoreUrl, need: Need) -> NotPromised:
    return NotPromised(str(url), need, able={each.name for each in _own().values() if need in each.promises})


def schemes() -> tuple[str, ...]:
    """Return the schemes of all known stores, sorted."""
    return tuple(sorted({*_own(), *_foreign()}))


def get(scheme: str) -> StoreSpec:
    """Return the spec of the store with this scheme."""
    return _own().get(scheme) or _foreign()[scheme]


def shown_url(url: str) -> str:
    """Return a URL without user and password, as it may be shown. Errors are those of `parsed_url`."""
    return str(parsed_url(url))


def parsed_url(url: str) -> StoreUrl:
    """Parse the URL of a store. Errors are those of `url.parse`."""
    return parse(url, schemes=schemes())


@cache
def _own() -> dict[str, StoreSpec]:
    room = import_module("apportion.stores")
    folders = [f"apportion.stores.{each.name}" for each in iter_modules(room.__path__) if each.ispkg]
    specs = [import_module(f"{folder}.spec").SPEC for folder in folders if find_spec(f"{folder}.spec") is not None]
    return {scheme: spec for spec in specs for scheme in spec.schemes}


def _foreign() -> dict[str, StoreSpec]:
    from apportion.runtime.entry_points import added  # noqa: PLC0415 - slow to import, and rarely needed

    return {scheme: spec for spec in added(ENTRY_POINTS, StoreSpec) for scheme in spec.schemes}
