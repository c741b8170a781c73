"""Pins that are killed: a process that forks a mover for each order, and tells how the mover ended.

python -m tests.live.shard_pins URL ID=URL...

An order is a line `KEY EPOCH STOP`. The mover ends the pins that were cut off, as each mover does first, and then pins
the key in a moment in which it has no rows. The key `-` stands for no pin. All is done under a token of that epoch.
"""

import asyncio
import os
import sys
import time
from functools import partial
from types import SimpleNamespace

from apportion.errors import Conflict, InvalidInput
from apportion.model.epoch import FencingToken
from apportion.runtime.clock import SystemClock
from apportion.shards.admin.keys.pinned_keys import _has_rows
from apportion.shards.mover.book import MoveBook
from apportion.shards.mover.own_slots import OwnSlots
from apportion.shards.mover.rescue import sites_of
from apportion.shards.mover.stop_points import VARIABLE, stop_point
from apportion.shards.records import SetRecord, ShardRecord
from apportion.stores.catalog import connect
from tests.shards.sample import SET, SLOTS, Base

PATIENCE_SECONDS = 30.0


async def pinned(url, places, order):
    """Carry out an order."""
    key, epoch, stop = order.split()
    if stop != "-":
        os.environ[VARIABLE] = stop
    shards = {shard: ShardRecord(url=place) for shard, place in places.items()}
    carrier = SimpleNamespace(followed=SimpleNamespace(shards=shards, record=SetRecord(hash_slots=SLOTS)))
    store, sites = await connect(url), sites_of(SET, shards)
    token = FencingToken(
        resource=f"{SET}.mover", holder=epoch, incarnation=2**60, epoch=int(epoch)
    )  # routers that rescue are older
    own_slots = OwnSlots(store, SET, sites, MoveBook(store, SET, SystemClock()), token, reached=stop_point())

    async def has_rows(*place):
        return await asyncio.to_thread(partial(_has_rows, carrier, Base), *place)

    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            await own_slots.settle()
            if key != "-":
                await own_slots.pin(key, has_rows)
            break
        except (Conflict, InvalidInput) as refused:  # a rescue was first, or the key has rows
            if time.monotonic() > until:
                raise RuntimeError(f"{key} was refused for {PATIENCE_SECONDS} s") from refused
        await asyncio.sleep(0.01)
    await sites.close()
    await store.close()
    print("over", flush=True)


def main(url, *named):
    """Fork a mover for each line of the input."""
    places = dict(each.split("=", 1) for each in named)
    print("ready", flush=True)
    for order in sys.stdin:
        child = os.fork()
        if not child:
            asyncio.run(pinned(url, places, order))
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            print("killed" if status == -9 else f"failed {status}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
