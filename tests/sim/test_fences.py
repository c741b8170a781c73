"""The fences: a world's clocks and chance are its own, a call that would leave is refused, and all is put back."""

import asyncio
import builtins
import concurrent.futures
import multiprocessing
import os
import queue
import random
import secrets
import select
import selectors
import socket
import subprocess
import threading
import time
import uuid
from contextlib import suppress

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
    (os, ("urandom", "fork", "forkpty", "system", "posix_spawn", "execv", "kill", "waitpid", "_exit")),
    (socket, ("getaddrinfo", "gethostbyname")),
    (socket.socket, ("__init__",)),
    (threading, ("Lock",)),
    (threading.Condition, ("wait",)),
    (threading.Thread, ("start", "join")),
    (subprocess.Popen, ("__init__",)),
    (select, ("select", "poll", "epoll")),
    (builtins, ("input",)),
)


def within(seed, look):
    """Return the view of a process on its world."""
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


def _pops(kind):
    kind().get(timeout=0.1)


def _reenters():
    lock = threading.Lock()  # looked up within the world
    with lock:
        lock.acquire(timeout=0.1)


LEAVES = {
    "socket": socket.socket,
    "name": lambda: socket.create_connection(("localhost", 1)),
    "uuid1": lambda: uuid.uuid1().hex,
    "sleep": lambda: time.sleep(0.0),
    "thread": lambda: threading.Thread(target=print).start(),
    "timer": lambda: threading.Timer(1.0, print).start(),
    "executor": lambda: concurrent.futures.ThreadPoolExecutor().submit(print),
    "subprocess": lambda: subprocess.run(["true"], check=True),
    "system": lambda: os.system("true"),
    "popen": lambda: os.popen("true").close(),
    "fork": lambda: os.fork() or os._exit(0),  # a fenced name is looked up when it is called
    "posix_spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "spawnv": lambda: os.spawnv(os.P_WAIT, "/bin/true", ["true"]),
    "exec": lambda: os.execvp("true", ["true"]),
    "kill": lambda: os.kill(os.getpid(), 0),
    "exit": lambda: os._exit(1),
    "child": lambda: os.waitpid(-1, 0),
    "forked process": lambda: multiprocessing.get_context("fork").Process(target=print).start(),
    "spawned process": lambda: multiprocessing.get_context("spawn").Process(target=print).start(),
    "process pool": lambda: multiprocessing.Pool(1),
    "queue of processes": lambda: multiprocessing.Queue().get(timeout=0.1),
    "event": lambda: threading.Event().wait(0.1),
    "event without a time": lambda: threading.Event().wait(),
    "condition": lambda: _pops(queue.Queue),
    "priority queue": lambda: _pops(queue.PriorityQueue),
    "simple queue": lambda: _pops(queue.SimpleQueue),
    "semaphore": lambda: threading.Semaphore(0).acquire(timeout=0.1),
    "barrier": lambda: threading.Barrier(2).wait(0.1),
    "future": lambda: concurrent.futures.Future().result(0.1),
    "lock": _reenters,
    "select": lambda: select.select([], [], [], 0.1),
    "poll": lambda: select.poll().poll(0.1),
    "selector": lambda: selectors.DefaultSelector().select(0.1),
    "input": lambda: input(),  # noqa: PLW0108
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", LEAVES)
def test_what_would_leave_the_world_is_refused(name):
    async def main():
        LEAVES[name]()

    with World(1) as world, pytest.raises(LeavesTheWorld, match="Use "):
        world.run(main())


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", LEAVES)
def test_a_refusal_that_the_program_caught_ends_the_run_all_the_same(name):
    did = []

    async def main():
        with suppress(Exception):
            LEAVES[name]()
            did.append("more")
        await asyncio.sleep(1.0)
        did.append("much later")

    with World(1) as world:
        world.spawn("a", main())
        with pytest.raises(LeavesTheWorld, match="Use "):
            world.run(until=5.0)
    assert [] == did


def test_the_first_of_several_refusals_is_told_once():
    async def main():
        for leave in (LEAVES["select"], LEAVES["sleep"]):
            with suppress(LeavesTheWorld):
                leave()
        await asyncio.sleep(1.0)

    with World(1) as world:
        task = world.spawn("a", main())
        with pytest.raises(LeavesTheWorld, match=r"select\.select"):
            world.run(until=5.0)
        world.run(until=5.0)
        assert task.done()


def test_a_wait_that_does_not_wait_is_none():
    def look():
        event, waiting, lock, done = threading.Event(), queue.Queue(), threading.Lock(), concurrent.futures.Future()
        event.set()
        waiting.put("here")
        done.set_result("done")
        with lock:
            free = lock.acquire(blocking=False), lock.acquire(timeout=0), lock.locked()
        return event.wait(), threading.Event().wait(0), waiting.get(), done.result(), free, lock.locked()

    assert (True, False, "here", "done", (False, False, True), False) == within(1, look)


def test_a_lock_that_was_made_in_a_world_works_outside_of_it():
    lock = within(1, lambda: threading.Lock())  # noqa: PLW0108 - looked up within
    with lock:
        assert not lock.acquire(timeout=0.01)
        threading.Timer(0.05, lock.release).start()
        assert lock.acquire(timeout=10)
    assert not lock.locked()


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
        threading.Event().wait(0.001)
        looked.set()

    thread = threading.Thread(target=watchdog)
    thread.start()

    async def main():
        running.set()
        until = 10_000_000
        while not looked.is_set() and (until := until - 1):
            await asyncio.sleep(0)
        return time.time()

    began = time.time()
    with World(1, step_limit=20_000_000) as world:
        inside = world.run(main())
    thread.join(10)
    assert 0 <= seen[0] - began < 60
    assert abs(inside - seen[0]) > 1_000_000
