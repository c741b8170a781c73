"""Watches of one store: each wakes for keys of its own range, and misses nothing told after it took its event."""

import asyncio

from apportion.runtime.clock import Clock, SystemClock
from apportion.stores.lookout import Lookout
from apportion.stores.watchers import Watchers


def test_a_change_wakes_the_watches_of_its_keys_alone():
    watchers = Watchers()
    one, other = watchers.join(b"a/", b"a0"), watchers.join(b"b/", b"b0")
    events = [each.next_change() for each in (one, other)]
    watchers.wake([b"a/7", b"c"])
    assert [True, False] == [each.is_set() for each in events]
    watchers.wake()
    assert [True, True] == [each.is_set() for each in events]


def test_a_watch_that_was_woken_before_it_waits_waits_for_the_next_change():
    watchers = Watchers()
    watcher = watchers.join(b"a", b"b")
    first = watcher.next_change()
    watchers.wake([b"a"])
    second = watcher.next_change()
    assert (True, False) == (first.is_set(), second.is_set())
    watchers.leave(watcher)
    watchers.wake()
    assert not second.is_set()


def test_a_nudge_ends_the_pause_of_a_lookout_and_one_during_a_look_is_not_lost():
    clock: Clock = SystemClock()
    looks = []

    async def main():
        looked = asyncio.Event()

        class Scene(Lookout):
            async def _look(self):
                looks.append(len(looks))
                if len(looks) == 2:
                    self._nudge()
                looked.set()

            def _pause_seconds(self, _):
                return 3_600.0

        lookout = Scene(clock, own=())
        watcher = lookout.join(b"a", b"b")
        async with asyncio.timeout(10):
            await looked.wait()
            looked.clear()
            lookout._nudge()
            while len(looks) < 3:
                await looked.wait()
                looked.clear()
        lookout.leave(watcher)

    asyncio.run(main())
    assert [0, 1, 2] == looks


def test_a_nudge_ends_one_pause_alone():
    looks = []

    class Scene(Lookout):
        async def _look(self):
            looks.append(len(looks))

        def _pause_seconds(self, _):
            return 3_600.0

    async def main():
        lookout = Scene(SystemClock(), own=())
        watcher = lookout.join(b"a", b"b")
        for nudge in (lambda: None, lookout._nudge):
            nudge()
            for _ in range(9):
                await asyncio.sleep(0)
        lookout.leave(watcher)

    asyncio.run(main())
    assert [0, 1] == looks
