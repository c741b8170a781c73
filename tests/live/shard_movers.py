"""Movers that are killed: a process that forks a mover for each order, and tells how the mover ended.

python -m tests.live.shard_movers URL FOLDER CHANNEL ID=URL...

An order is a line `MOVE SOURCE TARGET SLOTS EPOCH WISH STOPS`. The mover lists the move if it is not there, changes its
wish, and does all acts under a token of that epoch. With the epoch `-`, the token is of an election that has ended. The
wish `there` makes a reversible move and does not clean up, and `back` reverses it. The mover dies at the first of the
stop points, which have commas between them. It notes the time of each stop point in the file `points`. Slots such as
`17=acme=64` stand for the rows of one key in slot 17, which get slot 64.
"""

import asyncio
import os
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

from apportion.errors import Fenced
from apportion.groups.leader import leader
from apportion.model.epoch import FencingToken
from apportion.model.topology import Node
from apportion.runtime.clock import SystemClock
from apportion.shards.admin.keys.isolation import key_conditions
from apportion.shards.channel import ChannelWish
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover import Mover
from apportion.shards.mover.rescue import MOVER_TTL, sites_of
from apportion.shards.mover.reversal import reverse
from apportion.shards.mover.stop_points import StopPoint
from apportion.shards.pins.isolated_key import IsolatedKey
from apportion.shards.place import DatabasePlace
from apportion.shards.records import ShardRecord
from apportion.shards.takeover.sharded_table import sharded_in_order
from apportion.stores.catalog import connect
from tests.shards.sample import SET, Base

SHARDS = ("one", "two")
ELECTED = "-"


async def moved(url, folder, channel, places, order):
    """Carry out an order, and say how it ended."""
    *given, named = order.split()
    stops = [] if named == "-" else [StopPoint(each) for each in named.split(",")]

    def reached(label):
        for each in stops:
            each(label)

    try:
        entry, left = await carried_out(url, folder, channel, places, given, reached=reached)
    except Fenced:  # a router has waited for too long, and was elected
        if given[4] != ELECTED:
            raise
        print("fenced -", flush=True)
        return
    print(f"{'over' if entry is None else entry.record.state} {','.join(left) or '-'}", flush=True)


async def carried_out(url, folder, channel, places, given, *, reached):
    """Carry out an order. Return the record of the move, and all that is left behind. A move that is over stays so."""
    move, source, target, slots, epoch, wish = given
    points = os.open(f"{folder}/points", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    is_over = f"{move} release.before" in (Path(folder) / "points").read_text()

    def noted(label):
        os.write(points, f"{move} {label} {time.monotonic():.6f}\n".encode())
        reached(label)

    store = await connect(url)
    sites = sites_of(SET, {shard: ShardRecord(url=place) for shard, place in places.items()}, ChannelWish(kind=channel))
    nodes = {shard: Node(shard) for shard in SHARDS}
    mover = Mover(store, SET, sites, nodes, clock=SystemClock(), wall=time.time, reached=noted)
    try:
        kept = (await mover.book.read()).kept.get(move)
        if kept is None and not is_over:
            group = group_of(move, source, target, slots, places[source])
            await mover.begin(group, is_reversible=wish == "there")
        elif kept is not None and wish in ("go", "pause", "abort") and kept.entry.wish != wish:
            await mover.book.write(kept, kept.entry.wished(wish))
        async with token_of(url, epoch) as token:
            if wish == "back" and not is_back(kept):
                entry = await reverse(mover, move, token)
            else:
                entry = await mover.run(move, token, cleans=wish not in ("there", "back"))
        return entry, [name for shard in SHARDS for name in await (await sites.shard(shard)).left_behind(move)]
    finally:
        await sites.close()
        await store.close()
        os.close(points)


def group_of(move, source, target, slots, place):
    """Return the group of an order. `place` is the URL of the source."""
    if "=" not in slots:
        return MoveGroup(move=move, source=source, target=target, slots=tuple(map(int, slots.split(","))))
    slot, key, own = slots.split("=")
    with DatabasePlace(ShardRecord(url=place).address()).reader() as reader:
        conditions = key_conditions(sharded_in_order(Base), key, reader.dialect)
    isolated = IsolatedKey(key=key.encode(), slot=int(own), conditions=conditions)
    return MoveGroup(move=move, source=source, target=target, slots=(int(slot),), isolated=isolated)


@asynccontextmanager
async def token_of(url, epoch):
    """Yield a token of an epoch that is newer than those of routers that rescue, or the token of an election."""
    if epoch != ELECTED:
        yield FencingToken(resource=f"{SET}.mover", holder=epoch, incarnation=2**60, epoch=int(epoch))
        return
    async with leader(url, f"{SET}.mover", lease_ttl=MOVER_TTL) as election:
        token = await election.wait_until_elected()
    yield token  # The term is over: a mover that is killed in its term again and again would delay the next election.


def is_back(kept):
    """Whether a move has gone back already."""
    return kept.entry.record.way == "back" and kept.entry.record.state == "complete"


def main(url, folder, channel, *named):
    """Fork a mover for each line of the input."""
    places = dict(each.split("=", 1) for each in named)
    print("ready", flush=True)
    for order in sys.stdin:
        child = os.fork()
        if not child:
            asyncio.run(moved(url, folder, channel, places, order))
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            print("killed -" if status == -9 else f"failed {status}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
