"""The fences: a world's clocks and chance are its own, what would leave is refused, and all is put back."""

import asyncio
import os
import random
import secrets
import socket
import subprocess
import threading
import time
import uuid

import pytest

from apportion.sim import LeavesTheWorld, World

FENCED = (
    (
        time,
        ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "clock_gettime", "sleep"),
    ),
    (time, ("process_time", "thread_time", "gmtime", "localtime", "ctime", "strftime", "asctime")),
    (random, ("seed",)),
    (random.Random, ("seed",)),
    (uuid, ("uuid1",)),
    (socket, ("gethostname",)),
    (os, ("urandom", "fork")),
    (socket.socket, ("__init__",)),
    (threading.Thread, ("start",)),
    (subprocess.Popen, ("__init__",)),
)


def within(seed, look):
    """Return what a process sees of a world."""
    seen = []

    async def main():
        seen.append(look())

    with World(seed) as world:
        world.spawn("a", main())
        world.run(until=1.0)
    return seen[0]


def chance():
    drawn = random.random(), uuid.uuid4(), os.urandom(8), secrets.token_hex(4), random.choice(range(1000))
    random.seed()
    return *drawn, random.random(), random.Random().random()


def test_chance_repeats_with_the_seed():
    assert within(1, chance) == within(1, chance)
    assert not set(within(1, chance)) & set(within(2, chance))


def clocks():
    elapsed = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    return time.time(), time.monotonic(), time.perf_counter(), elapsed, time.clock_gettime(time.CLOCK_REALTIME)


def test_clocks_are_those_of_the_process():
    wall, monotonic, counter, elapsed, real = within(3, clocks)
    assert wall == real
    assert monotonic == counter == elapsed
    assert within(3, clocks) == (wall, monotonic, counter, elapsed, real)
    assert abs(wall - 1_700_000_000) < 1_000  # the clock of the machine is years away


def test_other_clocks_and_calendars_agree_with_them():
    def look():
        assert time.process_time() == time.thread_time() == time.monotonic()
        now = time.time()
        assert time.gmtime() == time.gmtime(now)
        assert time.localtime() == time.localtime(now)
        assert time.ctime() == time.asctime() == time.ctime(now)
        assert time.strftime("%c") == time.strftime("%c", time.localtime(now))
        return time.gmtime().tm_year

    assert 2023 == within(3, look)


def test_a_source_of_chance_with_a_seed_gives_what_it_gives_outside():
    def look():
        random.seed(5)
        return random.random(), random.Random(5).random()

    expected = random.Random(5).random()
    assert (expected, expected) == within(1, look)


def test_processes_have_clocks_of_their_own():
    seen = {}

    async def look(name):
        seen[name] = (time.time(), time.monotonic())

    with World(1) as world:
        for name in ("a", "b"):
            world.spawn(name, look(name))
        world.run(until=1.0)
    assert abs(seen["a"][0] - seen["b"][0]) > 1
    assert abs(seen["a"][1] - seen["b"][1]) > 1


@pytest.mark.parametrize(
    "leave",
    [
        socket.socket,
        lambda: uuid.uuid1().hex,
        lambda: time.sleep(0.0),
        lambda: threading.Thread(target=print).start(),
        lambda: subprocess.run(["true"], check=True),
        lambda: os.fork() or os._exit(0),  # what is fenced is looked up when it is called
    ],
    ids=["socket", "uuid1", "sleep", "thread", "subprocess", "fork"],
)
def test_what_would_leave_the_world_is_refused(leave):
    async def main():
        leave()

    with World(1) as world, pytest.raises(LeavesTheWorld, match="Use "):
        world.run(main())


def test_a_thread_for_a_blocking_call_is_refused():
    async def main():
        await asyncio.to_thread(print)

    with World(1) as world, pytest.raises(LeavesTheWorld, match="run_in_executor"):
        world.run(main())


def originals():
    return [getattr(owner, name) for owner, names in FENCED for name in names]


def test_all_is_put_back_also_after_an_error():
    before, state = originals(), random.getstate()

    async def fail():
        assert originals() != before
        raise KeyError("mine")

    with World(1) as world, pytest.raises(KeyError, match="mine"):
        world.run(fail())
    assert originals() == before
    assert random.getstate() == state


def test_other_threads_see_the_machine_as_it_is():
    seen, running, looked = [], threading.Event(), threading.Event()

    def watchdog():
        running.wait(10)
        seen.extend([time.time(), len(os.urandom(4))])
        time.sleep(0)
        looked.set()

    thread = threading.Thread(target=watchdog)
    thread.start()

    async def main():
        running.set()
        looked.wait(10)
        return time.time()

    began = time.time()
    with World(1) as world:
        inside = world.run(main())
    thread.join(10)
    assert 0 <= seen[0] - began < 60
    assert abs(inside - seen[0]) > 1_000_000
