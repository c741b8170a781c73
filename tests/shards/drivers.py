"""Pinned sessions of each driver of PostgreSQL that SQLAlchemy has, sync and async, behind one face.

An act is a function of a sync session. A session of an async driver runs it in the greenlet of its loop.
"""

import asyncio
import threading
from contextlib import contextmanager

from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

import apportion
import apportion.sync
from apportion.errors import StaleRoute
from tests.shards.sample import SET, Base

DRIVERS = {
    "psycopg": create_engine,
    "psycopg2": create_engine,
    "psycopg, async": create_async_engine,
    "asyncpg": create_async_engine,
}
PATIENCE_SECONDS = 30.0


class DrivenRouter:
    """A router that is open with a driver. `wait` runs the coroutines of an async one, and is None for a sync one."""

    def __init__(self, router, wait):
        self._wait = wait
        self.router = router

    def shard(self, key):
        """Return the shard of a key."""
        return self.router.shard(key)

    def slot(self, key):
        """Return the slot of a key."""
        return self.router.slot(key)

    def run(self, key, act):
        """Do an act of a sync session, and commit."""
        if self._wait is None:
            return self.router.run(key, act)
        return self._wait(self.router.run(key, lambda session: session.run_sync(act)))

    def session(self, key):
        """Open a session."""
        return DrivenSession(self.router.session(key), self._wait)


class DrivenSession:
    """A pinned session of a driver."""

    def __init__(self, session, wait):
        self._session, self._wait = session, wait

    def do(self, act):
        """Do an act of a sync session."""
        return act(self._session) if self._wait is None else self._wait(self._session.run_sync(act))

    def end(self, act):
        """Do an act and commit. Return "accepted", or "StaleRoute" after that error."""
        try:
            self.do(lambda session: (act(session), session.commit()))
        except StaleRoute as error:
            self.do(lambda session: session.rollback())
            return type(error).__name__
        return "accepted"

    def close(self):
        """Give the connection back."""
        self.do(lambda session: session.close())


@contextmanager
def opened(url, driver, place=lambda url: url, **options):
    """Open the set of a control store with a driver. `place` changes the URLs of shards, `options` are of engines."""
    make = DRIVERS[driver]

    def engine(url):
        return make(place(url.set(drivername=f"postgresql+{driver.partition(',')[0]}")), **options)

    given = {"base": Base, "create_engine": engine, "session": {"expire_on_commit": False}}
    if make is create_engine:
        with apportion.sync.open_shards(url, SET, **given) as router:
            yield DrivenRouter(router, None)
        return
    with loop_thread() as wait:
        handle = apportion.open_shards(url, SET, **given)
        router = wait(handle.__aenter__())
        try:
            yield DrivenRouter(router, wait)
        finally:
            wait(handle.__aexit__(None, None, None))


@contextmanager
def loop_thread():
    """Run an event loop in a thread. Yield a function that waits for a coroutine there."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
