"""Published tables in seeded worlds: publishers and followers are killed, parted, paused, and the store is restored.

Whatever a follower shows was published under that version, its versions only grow, and once nothing fails any more all
followers show the last one. A version is one value: two publishers never both make it.
"""

import asyncio
import random

import pytest

from apportion import Assignment, Topology
from apportion.errors import Conflict, StaleEpoch, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.sim import Mix, Nemesis, World
from apportion.sim.invariants.store import ALL, WatchesMissNothing
from apportion.tables.follower import Follower
from apportion.tables.publisher import Publisher

SEEDS = 240
RAGE_SECONDS, REST_SECONDS = 8.0, 20.0
PUBLISHERS, FOLLOWERS = ("p1", "p2"), ("f1", "f2")
EXPECTED = (Conflict, StaleEpoch, StoreDenied, StoreUnavailable, StoreWentBack)
# In a world a watch is told its life by no one: one that begins at a revision of the life before, while another scan of
# its handle has accepted the next, gives what the store still has of the life before, which the invariant refuses.
HELD = tuple(each for each in ALL if each is not WatchesMissNothing)
NODES = ("a", "b", "c", "d", "e")


class Play:
    """One seed: two that publish, each over the other, and two that follow."""

    def __init__(self, seed):
        self.world = World(seed, invariants=HELD)
        self.draw = self.world.draws("tables")
        self.tried, self.shown, self.following = {}, {}, {}
        self.made = self.won = self.lives = 0
        self.last = None
        self.nemesis = Nemesis(self.world, Mix.drawn(seed), start=self.start)

    def start(self, name):
        if name in PUBLISHERS:
            self.world.spawn(name, self.publish(name))
        else:
            self.world.spawn(name, self.follow(name))

    def value(self):
        """Return a value like no other of this world; most differ little from the one before."""
        self.made += 1
        nodes = self.draw.sample(NODES, self.draw.randint(1, len(NODES)))
        rows = tuple((place * self.made % len(nodes),) for place in range(self.draw.choice([12, 12, 12, 30])))
        value = Assignment(topology=Topology(nodes, number=self.made), rows=rows)
        self.tried[value.epoch] = value
        return value

    async def publish(self, name):
        publisher = Publisher(self.world.store(name), "orders")
        while True:
            await asyncio.sleep(random.uniform(0.05, 0.6))
            try:
                published = await publisher.publish(self.value())
            except EXPECTED:
                continue
            self.won += 1
            self.note(published.version, published.epoch)

    async def follow(self, name):
        self.lives += 1
        while True:
            follower = Follower(self.world.store(name), "orders", clock=self.world.clock(name))
            try:
                await follower.start()
                break
            except EXPECTED:
                await follower.close()
                await asyncio.sleep(0.2)
        self.following[name] = follower
        before = None
        while True:
            routes = follower.routes
            if routes is not before:
                assert before is None or before.version < routes.version, (before.version, routes.version)
                tried = self.tried[routes.value.epoch]
                assert (tried, tried.epoch) == (routes.value, routes.epoch)
                self.note(routes.version, routes.epoch)
                before = routes
            assert routes.owner(3) in NODES
            await asyncio.sleep(0.05)

    def note(self, version, epoch):
        """Check that a version is one value for every reader."""
        assert self.shown.setdefault(version, epoch) == epoch, version

    async def run(self):
        for name in (*PUBLISHERS, *FOLLOWERS):
            self.start(name)
        await self.nemesis.rage(RAGE_SECONDS)
        self.nemesis.rest()
        for name in PUBLISHERS:
            self.world.kill(name)
        await asyncio.sleep(4.0)  # for what is late
        publisher = Publisher(self.world.store("last"), "orders")
        published = await publisher.publish(self.value())
        deadline = self.world.now + REST_SECONDS
        while {self.epoch_of(name) for name in FOLLOWERS} != {published.epoch}:
            assert self.world.now < deadline, [(name, self.following[name].trouble) for name in FOLLOWERS]
            await asyncio.sleep(0.05)
        confirmed = self.world.now + REST_SECONDS
        while any(self.following[name].trouble or self.following[name].drift_versions for name in FOLLOWERS):
            assert self.world.now < confirmed
            await asyncio.sleep(0.05)

    def epoch_of(self, name):
        follower = self.following.get(name)
        return None if follower is None else follower.routes.epoch


def played(seed):
    """Play a seed; return the counts of its events."""
    play = Play(seed)
    with play.world:
        play.world.run(play.run())
        return {
            "versions": len(play.shown),
            "won": play.won,
            "lives of followers": play.lives,
            "restored": len({version.incarnation for version in play.shown}) - 1,
            **play.world.trace.injected,
        }


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(40, SEEDS, 40))])
def test_followers_never_go_back_and_come_to_show_the_last_version(first):
    total = {}
    for seed in range(first, first + 40):
        for name, count in played(seed).items():
            total[name] = total.get(name, 0) + count
    print(first, sorted(total.items()))
    for name in ("versions", "won", "restored", "kill", "partition", "reply lost", "watch gap", "compaction"):
        assert total.get(name, 0) > 0, name
    assert total["lives of followers"] > 2 * 40


def test_a_seed_is_the_same_run_twice():
    assert played(11) == played(11)
