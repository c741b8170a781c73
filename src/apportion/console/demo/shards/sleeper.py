"""Sleeper of the demonstration of shards, a separate process: a session reads, sleeps, and writes much later.

    python -m apportion.console.demo.shards.sleeper FOLDER COUNTRY

It prints `ready` after it has read, and waits for a line on standard input. By then its country lies elsewhere.
"""

import sys
from pathlib import Path

from sqlalchemy import func, select, update

import apportion
from apportion.console.demo.shards.ledger import ShardLedger
from apportion.console.demo.shards.world import SET, DemoWorld, WorldBase, WorldPlace
from apportion.errors import StaleRoute


def main(folder: str, country: str) -> None:
    """Read, wait, and write."""
    world = DemoWorld(Path(folder))
    ledger = ShardLedger(world.ledger("sleeper"))
    with (
        apportion.sync.open_shards(world.url, SET, base=WorldBase) as router,
        router.session(country) as session,
    ):
        with session.begin():
            session.scalar(select(func.count()).select_from(WorldPlace))
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            with session.begin():
                session.execute(update(WorldPlace).values(visits=-1))
        except StaleRoute as error:
            ledger.refused("refused", error)


if __name__ == "__main__":
    main(*sys.argv[1:])
