"""Forms: the async form and the sync form of a router. A form makes engines and sessions, and waits for results."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast

from sqlalchemy import Engine
from sqlalchemy import create_engine as create_sync_engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.util import await_only, greenlet_spawn

from apportion.errors import InvalidInput
from apportion.runtime.simulated import Runner
from apportion.shards.pin import Pin
from apportion.shards.sessions import PinnedSession

Result = TypeVar("Result")
Gather: TypeAlias = Callable[[Sequence[Callable[[], None]]], Sequence[BaseException | None]]
"""Makes calls at the same time. Returns the error of each call, or None."""
Gathering: TypeAlias = Callable[[], AbstractContextManager[Gather]]
"""Opens a `Gather` for a block."""

_MOST_THREADS = 1 << 16
_OWN = frozenset({"bind", "binds", "join_transaction_mode", "pin", "turn", "twophase"})

AsyncShardSession = AsyncSession
SyncShardSession = PinnedSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One of the two forms. `drivers` maps a kind of database to its driver, for URLs without a driver.

    `session` makes a pinned session. `session_of` makes one of another class of this package, with its own arguments.
    """

    drivers: dict[str, str]
    create_engine: Callable[..., Any]
    wait: Callable[[Runner, Coroutine[object, object, Any]], Any]
    session: Callable[[Pin, dict[str, Any]], Any]
    session_of: Callable[..., Any]
    take: Callable[[Callable[[], Any]], Any]
    gathering: Gathering
    close: Callable[[Any], Any]

    def engine(self, url: URL, create: Callable[..., Any] | None, options: dict[str, Any]) -> tuple[Any, Engine]:
        """Return an engine, and its sync part. `create` is the application's own function for engines, or None."""
        made = self.create_engine(url, **options) if create is None else create(url)
        sync_engine = made.sync_engine if isinstance(made, AsyncEngine) else made
        if not isinstance(sync_engine, Engine):
            hint = "Return create_engine(url), with the options of the application."
            raise InvalidInput("create_engine", made, "a function that returns an engine", hint)
        return made, sync_engine

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse options that a session does not take, and those that would send it to another connection."""
        for name in sorted(_OWN & options.keys()):
            raise InvalidInput("session", name, "options without the connection of a session", "Leave it out.")
        try:
            self.session(cast(Pin, None), dict(options))
        except (TypeError, ArgumentError) as error:
            raise InvalidInput("session", sorted(options), "options of a Session", f"{error}.") from error


def _made(ours: Any, options: dict[str, Any], **given: Any) -> Any:  # noqa: ANN401 - a session
    rest = {name: value for name, value in options.items() if name != "class_"}
    return _class_of(options.get("class_", Session), ours)(**given, **rest)


def _made_async(ours: Any, options: dict[str, Any], **given: Any) -> AsyncSession:  # noqa: ANN401 - its sync class
    rest = {name: value for name, value in options.items() if name not in ("class_", "sync_session_class")}
    kind = options.get("class_", AsyncSession)
    own = options.get("sync_session_class", kind.sync_session_class)
    session: AsyncSession = kind(sync_session_class=_class_of(own, ours), **given, **rest)
    return session


@cache
def _class_of(own: type[Session], ours: type[Session]) -> type[Session]:
    """Return the class of sessions, made once. It keeps the methods of the application's own class, if there is one."""
    name = ours.__name__.removesuffix("Session")
    return ours if own is Session else type(f"{name}{own.__name__}", (ours, own), {})


@contextmanager
def _threads() -> Iterator[Gather]:
    """Open threads for a block. Each of some calls at the same time has a thread of its own."""
    with ThreadPoolExecutor(max_workers=_MOST_THREADS) as threads:
        yield lambda calls: [made.exception() for made in [threads.submit(call) for call in calls]]


def _errors_of_tasks(calls: Sequence[Callable[[], None]]) -> Sequence[BaseException | None]:
    """Make calls at the same time, each in a task of the running loop. Return the error of each call, or None."""
    found: Sequence[BaseException | None] = await_only(_gathered(calls))
    return found


async def _gathered(calls: Sequence[Callable[[], None]]) -> Sequence[BaseException | None]:
    return await asyncio.gather(*map(greenlet_spawn, calls), return_exceptions=True)


async def _closed(engine: AsyncEngine) -> None:
    await engine.dispose()


async_form: Form = Form(
    drivers={"sqlite": "aiosqlite", "postgresql": "psycopg"},
    create_engine=create_async_engine,
    wait=lambda thread, work: await_only(thread.hop(work)),
    session=lambda pin, options: _made_async(PinnedSession, options, pin=pin),
    session_of=_made_async,
    take=greenlet_spawn,
    gathering=lambda: nullcontext(_errors_of_tasks),
    close=_closed,
)
sync_form: Form = Form(
    drivers={"sqlite": "pysqlite", "postgresql": "psycopg"},
    create_engine=create_sync_engine,
    wait=lambda thread, work: thread.wait(work),
    session=lambda pin, options: _made(PinnedSession, options, pin=pin),
    session_of=_made,
    take=lambda act: act(),
    gathering=_threads,
    close=lambda engine: engine.dispose(),
)
