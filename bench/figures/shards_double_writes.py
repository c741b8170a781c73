"""Double writes, a recipe of articles, beside a move of the same rows: rows that are wrong on the new database.

Six writers change rows of one SQLite file while all rows go to a second one. By the recipe, each writer writes both
files, and a backfill copies the old rows. One write in a hundred may be cut off between the files, as by a crash.

At the end nobody writes, and the new file is compared with the old one. `router.run` and `shards apply` do the same
with the rows of a set.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from apportion import shards, sync
from apportion.shards import admin
from apportion.sync.shards import SyncShardRouter
from bench.row import Row

WRITERS, KEYS, PAGE, SECONDS, CRASHES = 6, 4_000, 100, 1.5, 0.01
_UPSERT = (
    "INSERT INTO item VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, gone = excluded.gone"
)
_NEWER = f"{_UPSERT} WHERE excluded.value > item.value"
_ABSENT = "INSERT INTO item VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING"


class Base(DeclarativeBase):
    """The models of the figure."""


class Item(shards.Sharded, Base):
    """A row of the application."""

    __tablename__ = "item"
    __shard_key__ = "id"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    value: Mapped[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The statements of a recipe: a write to the new file, and a row of the backfill. A row may be kept as gone."""

    write: str
    backfill: str
    has_tombstones: bool = False


RECIPES = {
    "upserts": Recipe(write=_UPSERT, backfill=_UPSERT),
    "inserts of absent rows": Recipe(write=_UPSERT, backfill=_ABSENT),
    "versions and tombstones": Recipe(write=_NEWER, backfill=_NEWER, has_tombstones=True),
}


def rows() -> list[Row]:
    """Measure each recipe, with and without crashes, and a move."""
    found = []
    for crashes in (0.0, CRASHES):
        for name, recipe in RECIPES.items():
            with TemporaryDirectory() as folder:
                counts = _double_written(Path(folder), recipe, crashes)
            label = f"double writes, {name}{', one of 100 cut off' if crashes else ''}"
            found.append(Row(name=label, value=sum(counts), shown=_shown(counts), goal=None, met=None))
    with TemporaryDirectory() as folder:
        counts = _moved(Path(folder))
    name = "a move by shards apply, with the same writers"
    return [*found, Row(name=name, value=sum(counts), shown=_shown(counts), goal="= 0 wrong", met=not any(counts))]


def _shown(counts: tuple[int, int, int]) -> str:
    lost, back, stale = counts
    return f"{lost} rows lost, {back} resurrected, {stale} stale"


def _double_written(folder: Path, recipe: Recipe, crashes: float) -> tuple[int, int, int]:
    paths = [folder / "old.db", folder / "new.db"]
    for path in paths:
        with closing(_opened(path)) as connection:
            connection.execute("CREATE TABLE item (key INTEGER PRIMARY KEY, value INTEGER, gone INTEGER)")
    with closing(_opened(paths[0])) as connection, connection:
        connection.executemany("INSERT INTO item VALUES (?, 0, 0)", [(key,) for key in range(KEYS)])
    ended = threading.Event()

    def _write(number: int) -> None:
        draw, version = Random(number), 0
        with closing(_opened(paths[0])) as old, closing(_opened(paths[1])) as new:
            while not ended.is_set():
                version += 1
                key, is_gone = draw.randrange(KEYS // WRITERS) * WRITERS + number, draw.random() < 0.3
                _put(old, _UPSERT, key, version, is_gone=is_gone, keeps=recipe.has_tombstones)
                if draw.random() >= crashes:
                    _put(new, recipe.write, key, version, is_gone=is_gone, keeps=recipe.has_tombstones)

    def _backfill() -> None:
        with closing(_opened(paths[0])) as old, closing(_opened(paths[1])) as new:
            for first in range(0, KEYS, PAGE):
                page = old.execute("SELECT * FROM item WHERE key BETWEEN ? AND ?", (first, first + PAGE - 1)).fetchall()
                time.sleep(SECONDS / (KEYS / PAGE))  # the way of a page from one database to the other
                with new:
                    new.executemany(recipe.backfill, page)

    _run([partial(_write, number) for number in range(WRITERS)], _backfill, ended)
    with closing(_opened(paths[0])) as old, closing(_opened(paths[1])) as new:
        living = "SELECT key, value FROM item WHERE NOT gone"
        return _compared(dict(old.execute(living).fetchall()), dict(new.execute(living).fetchall()))


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _put(connection: sqlite3.Connection, write: str, key: int, version: int, *, is_gone: bool, keeps: bool) -> None:
    with connection:
        if is_gone and not keeps:
            connection.execute("DELETE FROM item WHERE key = ?", (key,))
        else:
            connection.execute(write, (key, version, is_gone))


def _run(writers: list[Callable[[], None]], act: Callable[[], None], ended: threading.Event) -> None:
    threads = [threading.Thread(target=writer) for writer in writers]
    for thread in threads:
        thread.start()
    try:
        act()
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _compared(truth: dict[Any, int], found: dict[Any, int]) -> tuple[int, int, int]:
    """Return the numbers of rows that are lost, that came back after they were deleted, and that have an old value."""
    stale = sum(found[key] != value for key, value in truth.items() if key in found)
    return len(truth.keys() - found.keys()), len(found.keys() - truth.keys()), stale


def _moved(folder: Path) -> tuple[int, int, int]:
    control = f"sqlite:///{folder}/control.db"
    urls = {name: f"sqlite:///{folder}/{name}.db" for name in ("one", "two")}
    asyncio.run(admin.init(control, "world", {"one": urls["one"]}, base=Base, slots=64))
    asyncio.run(admin.add(control, "world", {"two": urls["two"]}, base=Base))
    keys, ended, written = [UUID(int=number) for number in range(KEYS)], threading.Event(), dict[UUID, int]()
    with sync.open_shards(control, "world", base=Base) as router:
        for number in range(0, KEYS, PAGE):
            _filled(router, keys[number : number + PAGE], written)

        def _write(number: int) -> None:
            draw, version = Random(number), 0
            while not ended.is_set():
                version += 1
                key, is_gone = keys[draw.randrange(KEYS // WRITERS) * WRITERS + number], draw.random() < 0.3
                router.run(key, partial(_changed, key=key, version=version, is_gone=is_gone))
                written.pop(key, None) if is_gone else written.update({key: version})

        def _move() -> None:
            plan = asyncio.run(admin.plan(control, "world", slots=range(64), to="two"))
            asyncio.run(admin.apply(control, "world", plan))

        _run([partial(_write, number) for number in range(WRITERS)], _move, ended)
    with closing(sqlite3.connect(folder / "two.db")) as connection:
        found = {UUID(key): value for key, value in connection.execute("SELECT id, value FROM item")}
    return _compared(written, found)


def _filled(router: SyncShardRouter, keys: list[UUID], written: dict[UUID, int]) -> None:
    for key in keys:
        router.run(key, lambda session, key=key: session.add(Item(id=key, value=0)))  # type: ignore[misc]
        written[key] = 0


def _changed(session: Session, *, key: UUID, version: int, is_gone: bool) -> None:
    if is_gone:
        session.execute(delete(Item).where(Item.id == key))
        return
    item = session.scalars(select(Item).where(Item.id == key)).one_or_none()
    if item is None:
        session.add(Item(id=key, value=version))
    else:
        item.value = version
