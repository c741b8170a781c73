"""Finalizers that call in, wherever they run: generators in cycles, collected at every allocation."""

import subprocess
import sys

import pytest

BEGIN = """if True:
    import asyncio, faulthandler, gc, logging, sys
    from contextlib import suppress
    from datetime import timedelta
    import apportion
    from apportion.errors import ApportionError, InvalidInput, NotOwner, StoreClosed

    faulthandler.dump_traceback_later(45, exit=True)
    logging.getLogger("apportion.group").setLevel(logging.ERROR)
    url, ttl = sys.argv[1], timedelta(seconds=5)
    options = dict(partitions=4, lease_ttl=ttl, drain_timeout=timedelta(seconds=2), settle=timedelta(0))

    def forgotten(*things, number):
        # In a cycle, so that only the collector finds it: after one more allocation each time, so at any of them.
        cycle = list(things)
        cycle.append(cycle)
        gc.set_threshold(1 + number % 90)
"""
SYNC = """
    def holder(group, partition):
        with group.hold(partition):
            yield

    class Calling:
        def __init__(self, group):
            self.group = group

        def __del__(self):
            self.group.sight(), self.group.unguarded, dict(self.group.owned.items())
            with suppress(ApportionError), self.group.hold(0):
                self.group.token(0)

    def rounds(group, count):
        for number in range(count):
            generator = holder(group, number % 4)
            with suppress(NotOwner):
                next(generator)
            forgotten(generator, Calling(group), number=number)
            del generator
            with suppress(InvalidInput):  # the consumer of an earlier round was not collected yet
                changes = group.changes()
                next(changes)
                forgotten(changes, number=number)
                del changes

    with apportion.sync.open_group(url, "g", member_id="a", **options) as group:
        group.wait_until_settled()
        rounds(group, 900)
        gc.collect()
        with apportion.sync.open_group(url, "g", member_id="b", **options) as other:
            rounds(group, 100)
            other.wait_until_settled()
        gc.collect()
        print(len(group._participation.holdings._holds), group.is_alive)
"""
ASYNC = """
    async def holder(group, partition):
        async with group.hold(partition):
            yield

    async def work(group, partition):
        async with group.hold(partition):
            await asyncio.Event().wait()

    async def main():
        async with apportion.open_group(url, "g", member_id="a", **options) as group:
            await group.wait_until_settled()
            for number in range(300):
                generator = holder(group, number % 4)
                await anext(generator)
                forgotten(generator, number=number)
                del generator
                task = asyncio.create_task(work(group, number % 4))
                await asyncio.sleep(0)
                forgotten(task, number=number)
                task.cancel()
                del task
                await group.members()
            gc.collect()
            for _ in range(10):
                await asyncio.sleep(0.01)
            print(len(group._participation.holdings._holds), group.is_alive)

    asyncio.run(main())
"""
STORE = """
    from apportion.stores import Absent, Put, Unchanged

    def rounds(store, count):
        revision = 0
        for number in range(count):
            when = [Unchanged(key="a", revision=revision) if revision else Absent(key="a")]
            revision = store.commit(when=when, puts=[Put(key="a", value=b"%d" % number)]).revision
            changes = store.watch("", after=revision - 1)
            next(changes)
            forgotten(changes, number=number)
            del changes

    with apportion.sync.open_store(url) as store:
        rounds(store, 100)
        gc.collect()
        store.scan("")
        tasks = [each for each in asyncio.all_tasks(store._thread._loop) if "watch" in repr(each)]
        print(len(tasks), store.scan("").items[0].value == b"99")
"""


FORK = """
    import os

    class Calling:
        def __init__(self, store):
            self.store, self.process = store, os.getpid()

        def __del__(self):
            if os.getpid() == self.process:
                with suppress(StoreClosed):  # the last one is collected when the interpreter ends
                    self.store.scan("")

    with apportion.sync.open_store(url) as store, apportion.sync.open_store(url) as other:
        changes = other.watch("", after=0)
        for number in range(120):
            forgotten(Calling(store), number=number)
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
        print(0, gc.isenabled())
"""


PROGRAMS = {"sync": SYNC, "async": ASYNC, "store": STORE, "fork": FORK}


@pytest.mark.slow
@pytest.mark.parametrize("code", PROGRAMS.values(), ids=PROGRAMS)
def test_what_is_collected_at_any_allocation_gives_back_what_it_held_and_stops_nobody(tmp_path, code):
    url = f"sqlite:///{tmp_path / 's.db'}"
    warned = "ignore::DeprecationWarning"  # of a fork beside threads, since Python 3.12
    done = subprocess.run(
        [sys.executable, "-W", warned, "-c", BEGIN + code, url], capture_output=True, check=False, text=True, timeout=60
    )
    assert (0, "0 True\n", "") == (done.returncode, done.stdout, done.stderr)
