"""Kills at the stop points of a mover: of the servers of its move, each of which comes back at once or stays away.

A server that stays away comes back when each shard that lives has acknowledged writes after the kill. The slots that
move count for the shard that the newest table names.
"""

import asyncio
import threading
import time

from tests.live.slot_writers import KINDS, MOVING

PATIENCE_SECONDS, LEAST_WRITES = 40.0, 5


class Died(Exception):
    """The end of a mover in a test."""


class ServerKills:
    """Kills the servers of two shards. `done` has each kill, and `stuck` each one after which a living shard stood.

    A kill is its label, its name, and its time.
    """

    def __init__(self, files, router, acknowledged, slots):
        self._files, self._router, self._acknowledged, self._slots = files, router, acknowledged, slots
        self._relaunch, self._is_away = None, False
        self.done, self.stuck = [], []

    def may_begin(self):
        """Whether no server stays away now. A server that comes back is waited for."""
        if not self._is_away:
            self.join()
        return not (self._is_away and self._relaunch.is_alive())

    def note(self, label, name):
        """Note a kill that is made now."""
        self.done.append((label, name, time.monotonic()))

    def times(self, kind):
        """Return the times at which writes of a kind of slots were acknowledged."""
        return self._acknowledged.times[kind]

    def kill(self, shard, *, stays_away):
        """Kill the server of a shard after the kill was noted, and begin to start it again."""
        self._is_away = stays_away
        rig, name = self._files.rig_of(shard), self.done[-1][1]
        _in_thread(lambda: asyncio.run(rig.kill())).join()
        at = time.monotonic()

        def relaunch():
            if stays_away:
                self.await_writes(name, at, {shard})
            rig.launch()

        self._relaunch = _in_thread(relaunch)

    def await_writes(self, name, at, dead=frozenset()):
        """Wait until each kind of slots whose shard lives has writes that were acknowledged after a time."""
        until = time.monotonic() + PATIENCE_SECONDS
        while missing := self._standing(at, dead):
            if time.monotonic() > until:
                self.stuck.append((name, missing))
                return
            time.sleep(0.01)

    def join(self):
        """Wait until all servers are there again."""
        if self._relaunch is not None:
            self._relaunch.join()

    def _standing(self, at, dead):
        """Return the kinds of slots whose shard lives, and that have few writes after a time."""
        owners = {self._router.table.shard(slot) for slot in self._slots}
        written = self._acknowledged.since(at)
        living = [each for each in KINDS if not (owners if each == MOVING else {each}) & dead]
        return {each: written[each] for each in living if written[each] < LEAST_WRITES}


def _in_thread(act):
    thread = threading.Thread(target=act)
    thread.start()
    return thread
