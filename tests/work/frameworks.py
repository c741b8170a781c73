"""Connections of the libraries that a program may hold a transaction in, as blocks, by the name of the library.

Each block gives a connection in a transaction, its `enqueue`, `complete`, `commit` and `rollback` as one awaited form.
"""

import inspect
from contextlib import asynccontextmanager, closing

import django
import django.conf
import sqlalchemy
from django.db import connections, transaction
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

ALIAS = "tasks"
ENGINES = {"sqlite": "django.db.backends.sqlite3", "postgresql": "django.db.backends.postgresql"}


class Rolled(Exception):
    """Raised at the end of a block of Django's to roll back."""


def use_django(url):
    """Let the alias of Django lead to a database of SQLAlchemy's URL."""
    if not django.conf.settings.configured:
        django.conf.settings.configure(DATABASES={})
        django.setup()
    found = {"ENGINE": ENGINES[url.get_backend_name()], "NAME": url.database, "PORT": url.port or ""}
    found |= {"USER": url.username or "", "PASSWORD": url.password or "", "HOST": url.host or ""}
    connections.settings[ALIAS] = connections.configure_settings({"default": {}, ALIAS: found})[ALIAS]


@asynccontextmanager
async def of_django(url, *, is_kept=True):
    """Give Django's connection within `transaction.atomic()`."""
    use_django(url)
    with closing(connections[ALIAS]) as connection:
        try:
            with transaction.atomic(using=ALIAS):
                yield connection
                if not is_kept:
                    transaction.set_rollback(True, using=ALIAS)
        finally:
            connection.close()
            del connections[ALIAS]


@asynccontextmanager
async def of_session(url, *, is_kept=True):
    """Give a session of SQLAlchemy's ORM."""
    engine = sqlalchemy.create_engine(url)
    with Session(engine) as session:
        yield session
        session.commit() if is_kept else session.rollback()
    engine.dispose()


def of_async(kind, driver):
    """Return the block of a kind of SQLAlchemy's connections for asyncio, over a driver."""

    @asynccontextmanager
    async def _block(url, *, is_kept=True):
        engine = create_async_engine(url.set(drivername=f"{url.get_backend_name()}+{driver}"))
        async with kind(engine) as connection:
            yield connection
            await (connection.commit() if is_kept else connection.rollback())
        await engine.dispose()

    return _block


def of_engine(engine):
    """Return a connection of SQLAlchemy's for asyncio."""
    return engine.connect()


SQLITE = {
    "Django": of_django,
    "Session": of_session,
    "AsyncSession over aiosqlite": of_async(AsyncSession, "aiosqlite"),
    "AsyncConnection over aiosqlite": of_async(of_engine, "aiosqlite"),
}
POSTGRES = {
    "Django": of_django,
    "Session": of_session,
    "AsyncSession over asyncpg": of_async(AsyncSession, "asyncpg"),
    "AsyncConnection over asyncpg": of_async(of_engine, "asyncpg"),
    "AsyncSession over psycopg": of_async(AsyncSession, "psycopg"),
}


async def done(call):
    """Await a call where the library awaits."""
    return await call if inspect.isawaitable(call) else call
