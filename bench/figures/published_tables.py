"""Published tables of 1 000 nodes: an assignment of 100 000 partitions, and a ring of 150 tokens a node.

One node after another leaves: how large its delta is, how long publishing takes on each store, and how long until a
follower on another handle, which shares the event loop and the CPU, shows it. Then the stores are closed, and lookups
go on.
"""

import asyncio
from array import array
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from statistics import median
from time import perf_counter

from apportion import Assignment, Ring, Topology
from apportion.model.rows import Rows
from apportion.sim.conformance.rig import Rig
from apportion.stores import CoordinationStore, connect
from apportion.tables.follower import Follower
from apportion.tables.publisher import Publisher
from bench import engines
from bench.fleet import SEED, equal_fleet
from bench.goal import Goal, at_most
from bench.row import Row

NODES, PARTITIONS, ROUNDS, LOOKUPS = 1_000, 100_000, 5, 200_000
DELTA, PUBLISH = at_most(4.0, "kB"), at_most(2.0, "s")


def rows() -> list[Row]:
    """Publish, follow, and look up."""
    found = asyncio.run(_measure("memory", partial(connect, "memory://bench-tables")))
    found += engines.rows_of(_on_engine, *engines.NAMES, what="published tables")
    return found + asyncio.run(_ring())


async def _on_engine(rig: Rig) -> list[Row]:
    return await _measure(rig.name, partial(rig.connect, "bench"))


def _assignments() -> list[Assignment]:
    """Return one over all nodes, and then as one node after another leaves, whose partitions go to all others."""
    draw = Random(SEED)
    topology = equal_fleet(NODES)
    owners = [topology.ids[place % NODES] for place in range(PARTITIONS)]
    draw.shuffle(owners)
    made = [_assignment(topology, owners)]
    for leaving in draw.sample(topology.ids, ROUNDS):
        topology = topology.without(leaving)
        owners = [draw.choice(topology.ids) if owner == leaving else owner for owner in owners]
        made.append(_assignment(topology, owners))
    return made


def _assignment(topology: Topology, owners: list[str]) -> Assignment:
    return Assignment(topology=topology, rows=Rows(array("I", map(topology.index, owners)), width=1))


async def _measure(store: str, connected: Callable[[], Awaitable[CoordinationStore]]) -> list[Row]:
    first, *later = _assignments()
    ours, theirs = await connected(), await connected()
    publisher, follower = Publisher(ours, "work"), Follower(theirs, "work")
    began = perf_counter()
    snapshot = await publisher.publish(first)
    snapshot_seconds = perf_counter() - began
    began = perf_counter()
    await follower.start()
    start_seconds = perf_counter() - began
    publish_seconds, follow_seconds, sizes = [snapshot_seconds], [], []
    for value in later:
        before, began = follower.routes.version, perf_counter()
        published = await publisher.publish(value)
        publish_seconds.append(perf_counter() - began)
        sizes.append(published.size_bytes / 1_000)
        while follower.routes.version == before:
            await asyncio.sleep(0.0005)
        follow_seconds.append(perf_counter() - began)
    await ours.close()
    await theirs.close()
    failed = sum(follower.routes.owner(partition % PARTITIONS) is None for partition in range(LOOKUPS))
    await follower.close()
    what = f"{NODES} nodes x {PARTITIONS} partitions, {store}"
    worst, largest = max(publish_seconds), max(sizes)
    publishing = f"{worst:.2f} s at most, the snapshot {snapshot_seconds:.2f}"
    following = (
        f"{median(follow_seconds) * 1e3:.0f} ms after the publish began; a first read {start_seconds * 1e3:.0f} ms"
    )
    return [
        Row(name=f"snapshot, {what}", value=snapshot.size_bytes / 1_000, shown=f"{snapshot.size_bytes / 1_000:.0f} kB"),
        _row(f"delta of a leaving node, {what}", largest, f"{largest:.2f} kB", DELTA),
        _row(f"publish, {what}", worst, publishing, PUBLISH),
        Row(name=f"follow, {what}", value=median(follow_seconds), shown=following),
        _row(f"failed of {LOOKUPS} lookups with the store closed, {what}", failed, str(failed), at_most(0, "")),
    ]


async def _ring() -> list[Row]:
    ring = Ring(equal_fleet(NODES), vnodes=150)
    store = await connect("memory://bench-ring")
    publisher = Publisher(store, "ring")
    snapshot = await publisher.publish(ring.table())
    delta = await publisher.publish(ring.on(ring.topology.without(ring.topology.ids[500])).table())
    await store.close()
    what, size = f"ring of {NODES} x 150 tokens", delta.size_bytes / 1_000
    return [
        Row(name=f"snapshot, {what}", value=snapshot.size_bytes / 1e6, shown=f"{snapshot.size_bytes / 1e6:.2f} MB"),
        _row(f"delta of a leaving node, {what}", size, f"{size:.2f} kB", DELTA),
    ]


def _row(name: str, value: float, shown: str, goal: Goal) -> Row:
    return Row(name=name, value=value, shown=shown, goal=str(goal), met=goal.is_met(value))
