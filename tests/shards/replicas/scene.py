"""A scene of one seed: writers and readers of a map in a world, with loss, pauses, kills, stops and clocks apart."""

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
TWO_CENTRES = {"a": ("dc1", "r1"), "b": ("dc1", "r2"), "c": ("dc2", "r1"), "d": ("dc2", "r2")}
SECONDS = 12.0
MOST_SKEW_SECONDS = 10.0
PROCESSES = ("w0", "w1", "w2")


@dataclass(frozen=True)
class Played:
    """The end of a scene: its broken promises, and the numbers of its calls and faults."""

    broken: list[BrokenPromise]
    puts: int
    acknowledged: int
    gets: int
    sent_again: int
    faults: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The map of a scene, and the options with which its processes open it."""

    zones: dict
    copies: object
    level: str = "quorum"
    read_repair: bool = True


THREE_NODES = Setting(zones=ONE_CENTRE, copies=3)
TWO_AND_TWO = Setting(zones=TWO_CENTRES, copies={"dc1": 2, "dc2": 2})


class Scene:
    """The processes, nodes and faults of one seed."""

    def __init__(self, world, setting):
        self.world, self.setting = world, setting
        self.nodes = WorldNodes(world)
        self.draw = world.draws("scene")
        self.harms = 0

    async def create(self):
        """Create the map, before any fault."""
        NODES_HERE.set(self.nodes.here("operator"))
        zones = self.setting.zones
        topology = Topology([Node(name, zone=zone) for name, zone in zones.items()])
        urls = {name: name for name in zones}
        await create(URL, "flags", copies=self.setting.copies, slots=16, topology=topology, urls=urls)

    def begin(self):
        """Draw the weather, and start all processes."""
        draw = self.draw
        self.world.network.weather = Weather(
            most_seconds=draw.choice([0.002, 0.01, 0.05]),
            lost=draw.choice([0.0, 0.02, 0.1]),
            reordered=draw.choice([0.0, 0.2]),
            late=draw.choice([0.0, 0.05]),
        )
        for name in PROCESSES:
            self.start(name)

    def start(self, name):
        """Start a life of a process, with a wall clock of its own."""
        self.world.processes.living(name).wall_offset = self.draw.uniform(-MOST_SKEW_SECONDS, MOST_SKEW_SECONDS)
        self.world.spawn(name, self.work(name))

    async def work(self, name):
        """Write and read two keys until the end of the world."""
        NODES_HERE.set(self.nodes.here(name))
        draw, setting = self.world.draws(f"{name} {self.world.now}"), self.setting
        timeout = timedelta(seconds=draw.choice([0.1, 0.5, 1.0]))
        while True:
            with suppress(StoreUnavailable):  # the control store was not reached at opening
                async with apportion.open_map(
                    URL, "flags", consistency=setting.level, read_repair=setting.read_repair, timeout=timeout
                ) as flags:
                    while True:
                        await asyncio.sleep(draw.expovariate(20))
                        with suppress(QuorumNotReached):
                            await self.call(flags, draw, f"{name} {self.world.now:.6f}".encode())

    async def call(self, flags, draw, value):
        """Make one call."""
        key, kind = draw.choice(KEYS), draw.random()
        if kind < 0.3:
            await flags.put(key, value)
        elif kind < 0.35:
            await flags.delete(key)
        elif kind < 0.45:
            await flags.get_many(KEYS)
        else:
            await flags.get(key)

    async def harm(self):
        """Stop a node, part two places, pause or kill a process, until the end of the scene."""
        world, draw = self.world, self.draw
        while world.now < SECONDS:
            await asyncio.sleep(draw.expovariate(1.5))
            self.harms += 1
            kind, name, node = draw.random(), draw.choice(PROCESSES), draw.choice(sorted(self.setting.zones))
            if kind < 0.35:
                self.nodes.stop(node, draw.uniform(0.1, 1.0))
            elif kind < 0.6:
                world.partition(name, f"node {node}", draw.uniform(0.1, 1.5))
            elif kind < 0.8:
                world.pause(name, draw.uniform(0.05, 1.5))
            else:
                world.kill(name)
                self.start(name)


def play(seed, setting=THREE_NODES):
    """Play the scene of a seed; return its end."""
    with World(seed, invariants=()) as world:
        scene = Scene(world, setting)
        world.run(world.spawn("operator", scene.create()))
        scene.begin()
        world.run(scene.harm())
        history = scene.nodes.history
        return Played(
            broken=broken_promises(history),
            puts=len(history.puts),
            acknowledged=sum(put.end is not None for put in history.puts),
            gets=len(history.gets),
            sent_again=sum(len(put.versions) > 1 for put in history.puts),
            faults=sum(world.trace.injected.values()) + scene.harms,
            digest=world.trace.digest(len(history.puts), len(history.gets)),
        )
