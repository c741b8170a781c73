"""The world: pauses hold, kills are final, partitions part, messages travel, and errors come out."""

import asyncio

import pytest

from apportion.errors import InvalidInput, InvariantBroken, StoreUnavailable, StoreWentBack, UnknownOption
from apportion.sim import Invariant, Sink, World
from apportion.sim.world.network import Weather
from apportion.stores import Absent, Committed, Put, Unchanged, Unknown


@pytest.fixture
def world():
    with World(1, story=True) as made:
        yield made


async def tick(world, seen, every=1.0):
    while True:
        seen.append(round(world.now))
        await asyncio.sleep(every)


def test_a_process_runs_until_the_world_stops(world):
    seen = []
    world.spawn("a", tick(world, seen))
    world.run(until=3.5)
    assert [0, 1, 2, 3] == seen
    world.run(until=5.5)
    assert [0, 1, 2, 3, 4, 5] == seen


def test_a_paused_process_does_nothing_and_goes_on(world):
    seen = []
    world.spawn("a", tick(world, seen))
    world.run(until=1.5)
    world.pause("a", 10.0)
    world.run(until=11.4)
    assert [0, 1] == seen
    world.run(until=13.0)
    assert [0, 1, 12] == seen[:3]


def test_the_longer_of_two_pauses_counts(world):
    seen = []
    world.spawn("a", tick(world, seen))
    world.pause("a", 2.0)
    world.pause("a", 6.0)
    world.run(until=5.9)
    assert [] == seen
    world.run(until=6.5)
    assert [6] == seen


def test_a_killed_process_does_nothing_any_more_not_even_its_finally(world):
    effects = []

    async def work(store):
        try:
            while True:
                await asyncio.sleep(0.1)
        finally:
            effects.append(world.now)
            await store.commit(when=[Absent(key="late")], puts=[Put(key="late", value=b"")])

    world.spawn("a", work(world.store("a")))
    world.run(until=1.0)
    world.kill("a")
    world.run(until=60.0)
    assert [] == effects
    assert {} == world.checker.history.items


def test_a_process_that_is_killed_while_paused_stays_dead(world):
    seen = []
    world.spawn("a", tick(world, seen))
    world.run(until=0.5)
    world.pause("a", 1.0)
    world.run(until=1.2)  # a callback is held now
    world.kill("a")
    world.run(until=9.0)
    assert [0] == seen


def test_what_a_killed_process_had_sent_may_arrive(world):
    world.network.weather = Weather(least_seconds=1.0, most_seconds=1.0)
    store = world.store("a")
    world.spawn("a", store.commit(when=[Absent(key="k")], puts=[Put(key="k", value=b"v")]))
    world.run(until=0.5)
    world.kill("a")
    world.run(until=2.0)
    assert {"k"} == set(world.checker.history.items)


def test_a_process_starts_anew_under_its_name(world):
    seen = []
    world.spawn("a", tick(world, seen))
    world.run(until=0.5)
    world.kill("a")
    world.run(until=4.0)
    world.spawn("a", tick(world, seen))
    world.run(until=4.5)
    assert [0, 4] == seen


def test_a_partition_parts_a_process_from_the_store_and_heals(world):
    store = world.store("a")
    world.partition("a", "store", 5.0)
    with pytest.raises(StoreUnavailable):
        world.run(store.scan(""))
    outcome = world.run(store.commit(when=[Absent(key="k")], puts=[Put(key="k", value=b"v")]))
    assert isinstance(outcome, Unknown)
    world.run(until=5.1)
    assert () == world.run(store.scan("")).items


def test_after_a_one_way_partition_the_commit_is_there_and_the_caller_does_not_know(world):
    store = world.store("a")
    world.partition("store", "a", 5.0, one_way=True)
    outcome = world.run(store.commit(when=[Absent(key="k")], puts=[Put(key="k", value=b"v")]))
    assert isinstance(outcome, Unknown)
    assert {"k"} == set(world.checker.history.items)


def test_messages_go_between_processes(world):
    got = []

    async def listen():
        while True:
            got.append(await world.receive())

    async def speak():
        for number in range(3):
            world.send("b", number)
            await asyncio.sleep(1.0)

    world.spawn("b", listen())
    world.spawn("a", speak())
    world.partition("a", "b", 0.5)
    world.run(until=5.0)
    assert [1, 2] == got


def test_messages_are_doubled_lost_and_reordered():
    def received(**weather):
        got = []

        async def listen(world):
            while True:
                got.append(await world.receive())

        async def speak(world):
            for number in range(200):
                world.send("b", number)
                await asyncio.sleep(0.01)

        with World(5) as world:
            world.network.weather = Weather(**weather)
            world.spawn("b", listen(world))
            world.spawn("a", speak(world))
            world.run(until=60.0)
        return got

    assert list(range(200)) == received()
    assert 30 < len(received(lost=0.5)) < 170
    assert len(received(duplicated=0.5)) > 230
    reordered = received(reordered=0.5)
    assert list(range(200)) == sorted(reordered) != reordered


def test_the_store_that_is_restored_is_another(world):
    store = world.store("a")
    copy = world.backing.save()
    assert isinstance(world.run(store.commit(when=[Absent(key="k")], puts=[Put(key="k", value=b"v")])), Committed)
    world.restore(copy, "is restored")
    with pytest.raises(StoreWentBack):
        world.run(store.commit(when=[Absent(key="k")], puts=[Put(key="k", value=b"v")]))
    scan = world.run(store.scan(""))
    assert (2, 0, ()) == (scan.incarnation, scan.revision, scan.items)


def test_an_error_of_a_process_ends_the_run(world):
    async def fail():
        await asyncio.sleep(1.0)
        raise KeyError("mine")

    world.spawn("a", fail())
    with pytest.raises(KeyError, match="mine"):
        world.run(until=2.0)


def test_an_error_of_a_callback_ends_the_run(world):
    async def begin():
        asyncio.get_running_loop().call_later(1.0, {}.__getitem__, "mine")

    world.spawn("a", begin())
    with pytest.raises(KeyError, match="mine"):
        world.run(until=2.0)


def test_what_is_unknown_is_named(world):
    world.spawn("worker", tick(world, []))
    with pytest.raises(UnknownOption, match="Did you mean 'worker'"):
        world.kill("wroker")


@pytest.mark.parametrize("link", [("stor", "worker"), ("worker", "stor")])
def test_a_link_with_what_is_unknown_is_refused(world, link):
    world.store("worker")
    with pytest.raises(UnknownOption, match="Did you mean 'store'"):
        world.partition(*link, 1.0)
    with pytest.raises(UnknownOption, match="Did you mean 'store'"):
        world.network.clog(*link, 1.0)


def test_a_link_with_the_dead_and_with_a_sink_can_be_cut(world):
    Sink(world)
    world.spawn("worker", tick(world, []))
    world.kill("worker")
    world.partition("worker", "sink", 1.0)
    assert world.network.is_cut("sink", "worker")


def test_no_key_or_value_of_a_user_means_anything(world):
    store = world.store("a")

    async def main():
        for key in ("own/pet", "member/pet"):
            first = await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=b"cat")])
            when = [Unchanged(key=key, revision=first.revision)]
            second = await store.commit(when=when, puts=[Put(key=key, value=b"dog")])
            await store.commit(when=[Unchanged(key=key, revision=second.revision)], deletes=[key])

    world.run(main())
    assert 6 == world.checker.history.revision
    assert {} == world.checker.history.items


class NobodyPuts(Invariant):
    """Breaks at the first change."""

    def changed(self, fact):
        self.broken(f"revision {fact.revision}")


def test_a_broken_invariant_says_how_to_play_it_again():
    with World(7, invariants=[NobodyPuts]) as world:
        commit = world.store("a").commit(when=[Absent(key="k")], puts=[Put(key="k", value=b"v")])
        with pytest.raises(InvariantBroken, match=r"seed 7: NobodyPuts(.|\n)*World\(7, story=True\)") as broken:
            world.run(commit)
    assert "defect of apportion" not in str(broken.value)


def test_a_world_that_turns_in_circles_says_what_to_do():
    async def turn():
        while True:
            await asyncio.sleep(0)

    with World(7, step_limit=100) as world, pytest.raises(InvariantBroken, match="a loop that waits for nothing"):
        world.run(turn())


def test_a_closed_world_does_not_run(world):
    world.close()
    with pytest.raises(InvalidInput, match="Make a new one"):
        world.run(until=1.0)


def test_the_story_says_what_was_done(world):
    world.spawn("a", tick(world, []))
    world.pause("a", 1.0)
    world.run(until=2.0)
    assert any("a is paused for 1.000 s" in line for line in world.trace.lines)
