"""Writer of the demonstration of shards, a separate process: it writes places until SIGTERM.

    python -m apportion.console.demo.shards.writer FOLDER NUMBER KIND

The kinds: `session` writes through `apportion.sync.open_shards`, `async` through `apportion.open_shards`, and `bare` is
a script without the library, which knows the first database alone.
"""

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Delete, Insert, Update, create_engine, delete, insert, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

import apportion
from apportion.console.demo.shards.choice import PlaceWrite, WriteChoice
from apportion.console.demo.shards.databases import DemoConnection, DemoDatabases
from apportion.console.demo.shards.ledger import ShardLedger
from apportion.console.demo.shards.world import FIRST, SET, DemoWorld, WorldBase, WorldPlace
from apportion.errors import Outdated, Unavailable

_AWAY_SECONDS = 0.1
ends: list[int] = []


def write_by_session(world: DemoWorld, choice: WriteChoice, ledger: ShardLedger) -> None:
    """Write through pinned sessions."""
    engine = partial(_made, create_engine, world)
    with apportion.sync.open_shards(world.url, SET, base=WorldBase, create_engine=engine) as router:
        print("ready", flush=True)
        while not ends:
            write = choice.next()
            ledger.tries(write.line)
            try:
                shard = router.run(write.country, partial(_written, write))
            except (Outdated, Unavailable, OperationalError) as error:
                _turned_away(ledger, error)
            else:
                _acknowledged(choice, ledger, write, shard)


async def write_by_async_session(world: DemoWorld, choice: WriteChoice, ledger: ShardLedger) -> None:
    """Write through pinned sessions of an event loop."""
    engine = partial(_made, create_async_engine, world)
    async with apportion.open_shards(world.url, SET, base=WorldBase, create_engine=engine) as router:
        print("ready", flush=True)
        while not ends:
            write = choice.next()
            ledger.tries(write.line)

            async def work(session: Any, write: PlaceWrite = write) -> str:  # noqa: ANN401 - of any class
                """Write one place."""
                shard: str = await session.run_sync(partial(_written, write))
                return shard

            try:
                shard = await router.run(write.country, work)
            except (Outdated, Unavailable, OperationalError) as error:
                _turned_away(ledger, error)
            else:
                _acknowledged(choice, ledger, write, shard)


def write_bare(world: DemoWorld, choice: WriteChoice, ledger: ShardLedger) -> None:
    """Write to the first database, like a script that knows nothing of shards."""
    print("ready", flush=True)
    while not ends:
        try:
            with closing(world.databases.connect(FIRST)) as connection:
                _write_bare(connection, world.databases, choice, ledger)
        except world.databases.cut as error:
            _turned_away(ledger, error)


def _write_bare(connection: DemoConnection, databases: DemoDatabases, choice: WriteChoice, ledger: ShardLedger) -> None:
    while not ends:
        write, count = choice.next(), 0
        ledger.tries(write.line)
        try:
            count = connection.execute(*_bare(write)).rowcount
        except databases.cut:  # a subclass of the refusal in some drivers
            raise
        except databases.refusal as error:
            _turned_away(ledger, error)
        if count:
            _acknowledged(choice, ledger, write, FIRST)
        else:
            choice.leave(write.country)


def _made(create: Callable[..., Any], world: DemoWorld, url: URL) -> Any:  # noqa: ANN401 - of either form
    return create(url, **world.databases.engine_options)


def _turned_away(ledger: ShardLedger, error: Exception) -> None:
    ledger.refused("turned away", error)
    time.sleep(_AWAY_SECONDS)


def _written(write: PlaceWrite, session: Session) -> str:
    """Write one place; return the shard that takes it."""
    statement: Insert | Update | Delete
    if write.is_new:
        row = {"id": write.id, "country": write.country, "name": "new", "visits": write.value}
        session.execute(insert(WorldPlace), [row])
    else:
        of_place = delete(WorldPlace) if write.value is None else update(WorldPlace).values(visits=write.value)
        statement = of_place.where(WorldPlace.id == write.id)
        session.execute(statement)
    return Path(str(session.connection().engine.url.database)).stem


def _bare(write: PlaceWrite) -> tuple[str, tuple[object, ...]]:
    if write.is_new:
        values = (write.id, write.slot, write.country, "new", write.value)
        return "INSERT INTO place (id, slot, country, name, visits) VALUES (?, ?, ?, ?, ?)", values
    if write.value is None:
        return "DELETE FROM place WHERE id = ?", (write.id,)
    return "UPDATE place SET visits = ? WHERE id = ?", (write.value, write.id)


def _acknowledged(choice: WriteChoice, ledger: ShardLedger, write: PlaceWrite, shard: str) -> None:
    ledger.done(write.line | {"shard": shard})
    choice.done(write)
    time.sleep(choice.rest_seconds)


def _end_with_parent() -> None:
    """End when standard input ends: the script has gone."""
    sys.stdin.read()
    ends.append(1)


def main(folder: str, number: str, kind: str) -> None:
    """Write until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: ends.append(1))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    world = DemoWorld(Path(folder))
    choice, ledger = WriteChoice(world, int(number)), ShardLedger(world.ledger(f"writer-{number}"))
    if kind == "bare":
        write_bare(world, choice, ledger)
    elif kind == "async" and find_spec(world.databases.loop_client) is not None:
        asyncio.run(write_by_async_session(world, choice, ledger))
    else:
        write_by_session(world, choice, ledger)


if __name__ == "__main__":
    main(*sys.argv[1:])
