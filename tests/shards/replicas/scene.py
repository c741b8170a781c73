"""A scene of one seed: writers and readers of a map in a world, with loss, pauses, kills, stops and clocks that differ."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import apportion
from apportion import Node, Topology
from apportion.errors import QuorumNotReached, StoreUnavailable
from apportion.shards.replicas.facade import create
from apportion.shards.replicas.nodes.connect import NODES_HERE
from apportion.sim.replicas.checker import BrokenPromise, broken_promises
from apportion.sim.replicas.world_nodes import WorldNodes
from apportion.sim.world.network import Weather
from apportion.sim.world.world import World

URL = "memory://control"
KEYS = ("checkout", "search")
ONE_CENTRE = {"a": ("r1",), "b": ("r2",), "c": ("r3",)}
TWO_CENTRES = {
    "a": ("dc1", "r1"), "b": ("dc1", "r2"), "c": ("dc1", "r3"),
    "d": ("dc2", "r1"), "e": ("dc2", "r2"), "f": ("dc2", "r3"),
}  # fmt: skip
SECONDS = 12.0
MOST_SKEW_SECONDS = 10.0


@dataclass(frozen=True)
class Played:
    """The end of a scene: its broken promises, and the numbers of its calls."""

    broken: list[BrokenPromise]
    puts: int
    acknowledged: int
    gets: int
    sent_again: int
    faults: int
    digest: str


def play(seed, *, zones=ONE_CENTRE, copies=3, read_repair=True, level="quorum", processes=3, seconds=SECONDS):
    """Play the scene of a seed; return its end."""
    with World(seed, invariants=()) as world:
        nodes = WorldNodes(world)
        topology = Topology([Node(name, zone=zone) for name, zone in zones.items()])
        urls = {name: name for name in zones}

        async def _create():
            NODES_HERE.set(nodes.here("operator"))
            await create(URL, "flags", copies=copies, slots=16, topology=topology, urls=urls)

        world.run(world.spawn("operator", _create()))
        draw = world.draws("scene")
        lossy = draw.random() < 0.7
        world.network.weather = Weather(
            most_seconds=draw.choice([0.002, 0.01, 0.05]),
            lost=draw.uniform(0, 0.1) if lossy else 0.0,
            reordered=draw.choice([0.0, 0.2]),
            late=draw.choice([0.0, 0.05]),
        )

        def _start(name):
            world.processes.living(name).wall_offset = draw.uniform(-MOST_SKEW_SECONDS, MOST_SKEW_SECONDS)
            zone = sorted(zones.values())[int(name[1:]) % len(zones)]
            world.spawn(name, _work(world, nodes, name, level, read_repair, zone[0] if len(zone) > 1 else None))

        names = [f"w{number}" for number in range(processes)]
        for name in names:
            _start(name)
        harms = world.run(_harm(world, nodes, draw, names, sorted(zones), _start, seconds))
        history = nodes.history
        return Played(
            broken=broken_promises(history),
            puts=len(history.puts),
            acknowledged=sum(put.end is not None for put in history.puts),
            gets=len(history.gets),
            sent_again=sum(len(put.versions) > 1 for put in history.puts),
            faults=sum(world.trace.injected.values()) + harms,
            digest=world.trace.digest(len(history.puts), len(history.gets)),
        )


async def _work(world, nodes, name, level, read_repair, datacenter):
    """One process: it writes and reads two keys until the end of the world."""
    NODES_HERE.set(nodes.here(name))
    draw = world.draws(f"{name} {world.now}")
    timeout = timedelta(seconds=draw.choice([0.1, 0.5, 1.0]))
    while True:
        with suppress(StoreUnavailable):  # the control store was not reached at opening
            async with apportion.open_map(
                URL, "flags", consistency=level, datacenter=datacenter, read_repair=read_repair, timeout=timeout
            ) as flags:
                while True:
                    await asyncio.sleep(draw.expovariate(20))
                    await _call(flags, draw, f"{name} {world.now:.6f}".encode())


async def _call(flags, draw, value):
    key, kind = draw.choice(KEYS), draw.random()
    try:
        if kind < 0.3:
            await flags.put(key, value)
        elif kind < 0.35:
            await flags.delete(key)
        else:
            await flags.get(key)
    except QuorumNotReached:
        return


async def _harm(world, nodes, draw, names, places, start, seconds):
    """Do harm for some time: stop a node, pause or kill a process, part two places."""
    harms = 0
    while world.now < seconds:
        await asyncio.sleep(draw.expovariate(2))
        harms += 1
        kind, name = draw.random(), draw.choice(names)
        if kind < 0.35:
            nodes.stop(draw.choice(places), draw.uniform(0.2, 2.0))
        elif kind < 0.6:
            world.partition(name, f"node {draw.choice(places)}", draw.uniform(0.2, 3.0))
        elif kind < 0.8:
            world.pause(name, draw.uniform(0.05, 1.5))
        else:
            world.kill(name)
            start(name)
    return harms
