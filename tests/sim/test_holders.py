"""A process that was killed and a session that ended while its process lives are two facts, and both are true."""

import asyncio

import pytest

from apportion.sim import World
from apportion.sim.invariants.store import Invariant
from apportion.stores import Absent, Put

TTL_SECONDS = 2.0


class Heard(Invariant):
    """Keeps the deaths and lapses that the world tells its invariants."""

    told = ()

    def died(self, fact):
        self._hear(fact)

    def lapsed(self, fact):
        self._hear(fact)

    def _hear(self, fact):
        Heard.told = (*Heard.told, (type(fact).__name__, fact.process))


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(Heard, "told", ())
    with World(1) as made:
        made.checker.hold([Heard])
        yield made


async def keeps(store, key, *, gives_back_after=None):
    """Keep a key under a lease for ever, or give it back after some time."""
    lease = await store.grant(ttl_seconds=TTL_SECONDS)
    await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=b"here", lease=lease.id)])
    since = asyncio.get_running_loop().time()
    while gives_back_after is None or asyncio.get_running_loop().time() < since + gives_back_after:
        await asyncio.sleep(0.5)
        await store.renew([lease.id])
    await store.revoke(lease.id)


def start(world, name, **options):
    world.spawn(name, keeps(world.store(name), name, **options))
    world.run(until=world.now + 1.0)


def end_leases(world):
    """Let time go by until each lease that nobody renews has ended."""
    world.run(until=world.now + 2 * TTL_SECONDS)
    world.run(world.store("z").scan(""))


def test_a_process_that_sleeps_past_its_lease_has_lapsed_and_is_not_dead(world):
    start(world, "a")
    world.pause("a", 5.0)
    end_leases(world)
    assert [("Lapsed", "a")] == list(Heard.told)


def test_the_lease_of_a_killed_process_ends_without_a_lapse(world):
    start(world, "a")
    world.kill("a")
    world.kill("a")
    end_leases(world)
    assert [("Died", "a")] == list(Heard.told)


def test_what_a_life_before_held_is_no_lapse_of_the_next(world):
    start(world, "a")
    world.kill("a")
    world.spawn("a", asyncio.sleep(60.0))
    end_leases(world)
    assert [("Died", "a")] == list(Heard.told)


def test_a_lease_that_a_dead_process_had_asked_for_is_nobodys(world):
    store = world.store("a")
    world.network.clog("a", "store", 1.0)
    world.spawn("a", store.grant(ttl_seconds=TTL_SECONDS))
    world.run(until=0.5)
    world.kill("a")
    world.spawn("a", asyncio.sleep(60.0))
    world.run(until=1.5)
    key = world.store("b").commit(when=[Absent(key="k")], puts=[Put(key="k", value=b"here", lease=1)])
    world.run(key)
    end_leases(world)
    assert {} == world.checker.history.items
    assert [("Died", "a")] == list(Heard.told)


def test_a_lease_that_is_given_back_is_neither(world):
    start(world, "a", gives_back_after=2.0)
    end_leases(world)
    assert {} == world.checker.history.items
    assert [] == list(Heard.told)


def test_a_store_that_is_restored_to_before_a_session_lets_it_lapse(world):
    copy = world.backing.save()
    start(world, "a")
    world.pause("a", 60.0)
    world.restore(copy, "is restored")
    assert [("Lapsed", "a")] == list(Heard.told)
