"""Orders to movers of courses, one mover after another. At stop points that are due, a server or the mover is killed.

A server is killed while its mover runs in this process. A mover that is the victim has a process of its own. One that
stays away has no successor until each kind of slots has acknowledged writes: the writers end its fence.

A kill counts only if the writers were busy beside the switch, or the end of the fence, that follows in its move. Else
it is done again.
"""

import asyncio
import time
from bisect import bisect
from itertools import count

from apportion.errors import StoreUnavailable
from tests.live.move_courses import is_seldom
from tests.live.server_kills import Died
from tests.live.shard_movers import carried_out
from tests.live.shard_writers import KEYS
from tests.live.slot_writers import MOVING

WINDOW_SECONDS, LEAST_ACKNOWLEDGED = 0.2, 50
TRIES = 3
LEFT_ALONE = "left-alone"
ENDS = ("switch.after", "unfence.after", LEFT_ALONE)


class Orders:
    """The orders of courses. `due` has the labels at which somebody is killed, each with its victim and fate.

    `around` has for each kill that counts the writes that were acknowledged beside it. `missed` has the labels that no
    mover has reached, and `idle` those whose kills do not count. `least` is the least number of writes beside a kill.
    """

    def __init__(self, files, channel, kills, least=LEAST_ACKNOWLEDGED):
        self._files, self._channel, self._kills = files, channel, kills
        self._moves, self._course, self._move, self._least = count(1), None, None, least
        self._place, self._slots = "one", (files.folder / MOVING).read_text()
        self.ends, self.due, self.around, self.left, self.missed, self.idle = ("one", "two"), {}, {}, [], [], []

    def play(self, course, due):
        """Play a course with kills, again for labels that were passed, and for kills that do not count."""
        self._course, self.due, tries = course.__name__, dict(due), TRIES
        while self.due and tries > 0:
            left, done = len(self.due), len(self._kills.done)
            course(self)
            self._kills.join()
            idle = self._counted(self._kills.done[done:])
            self.due |= {label: due[label] for label in idle}
            if len(self.due) == left:
                tries -= TRIES if is_seldom(self.due) else 1
        self.idle += [(self._course, label) for label in self.due if label in idle]
        self.missed += [(self._course, label) for label in self.due if label not in idle and not is_seldom([label])]
        self.due = {}

    def named(self):
        """Name a move to the other shard."""
        self.ends = ("one", "two") if self._place == "one" else ("two", "one")
        self._move = f"{self._channel}{next(self._moves)}"
        return self._move

    def over(self, move, wish="go"):
        """Carry out a move to its end."""
        while self.order(move, wish):
            pass
        self._place = self._owner()

    def order(self, move, wish, stop=None, *, is_spared=False):
        """Let movers go on with a move, until it ends or one dies at a stop point. Return None if it is over."""
        raise NotImplementedError

    def close(self):
        """End the processes of movers."""

    def _given(self, move, wish, epoch):
        return move, *self.ends, self._slots, epoch, wish

    def _killed(self, label, victim, fate):
        """Note that a victim is killed at a label now."""
        self._kills.note(label, f"{self._course} {label} {victim} {fate}")

    def _counted(self, done):
        """Note the writes beside each kill. Return the labels of kills that do not count."""
        found, idle = windows(self._files.folder, self._move), []
        self._kills.await_writes(self._course, max((end for _, end in found), default=0.0) + WINDOW_SECONDS)
        times = self._kills.times(MOVING)
        for label, name, at in done:
            later = [each for each in found if each[1] >= at] or found[-1:]
            writes = beside(times, *later[0]) if later else (0, 0)
            if min(writes) >= self._least:
                self.around[name] = writes
            else:
                idle.append(label)
        return idle

    def _owner(self):
        slot = self._slots.partition(",")[0]
        for shard in ("one", "two"):
            if self._files.sql(shard, f"SELECT slot FROM apportion_slot WHERE state <> 'moved' AND slot = {slot}"):
                return shard
        raise AssertionError(slot)


class ServerOrders(Orders):
    """Orders to movers in this process. The server of the source or of the target is killed."""

    _epochs = count(1)

    def order(self, move, wish, stop=None, *, is_spared=False):
        reached = self._reached(stop, is_spared)
        given = self._given(move, wish, str(next(self._epochs)))
        places = {shard: self._files.place(shard) for shard in ("one", "two")}
        url, folder = self._files.url, self._files.folder
        while True:
            try:
                entry, left = asyncio.run(carried_out(url, folder, self._channel, places, given, reached=reached))
            except Died:
                return stop
            except StoreUnavailable:  # before a move begins, nobody waits for a shard
                time.sleep(0.05)
                continue
            self.left += left if entry is None else []
            return entry

    def _reached(self, stop, is_spared):
        stops = [stop]

        def reached(label):
            if label in self.due and not is_spared and self._kills.may_begin():
                victim, fate = self.due.pop(label)
                self._killed(label, victim, fate)
                self._kills.kill(self.ends[0 if victim == "source" else 1], stays_away=fate == "away")
            if label == "reverse.after":
                self.ends = self.ends[::-1]
            if label in stops:
                stops.remove(label)
                raise Died

        return reached


class MoverOrders(Orders):
    """Orders to movers that have processes of their own, and are killed. `movers` runs them."""

    def __init__(self, files, channel, kills, movers, *least):
        super().__init__(files, channel, kills, *least)
        self._movers = movers

    def order(self, move, wish, stop=None, *, is_spared=False):
        given = f"{move} {' '.join(self.ends)} {self._slots}"
        while True:
            due = [] if is_spared else [each for each in self.due if each != stop]
            word = self._movers.order(given, ",".join([stop] * (stop is not None) + due) or "-", wish)
            if word == "killed":
                label = self._movers.kills[-1]
                if label == stop:
                    return stop
                self._leave(label, *self.due.pop(label))
            elif word != "fenced":
                return None if word == "over" else word

    def _leave(self, label, victim, fate):
        self._killed(label, victim, fate)
        if fate == "away":
            at = time.monotonic()
            self._kills.await_writes(label, at)
            with (self._files.folder / "points").open("a") as points:
                points.write(f"{self._move} {LEFT_ALONE} {at:.6f}\n")

    def close(self):
        self._movers.close()


def windows(folder, move):
    """Return the times of each fence of a move and of its end: by a switch, by its mover, or else by writers."""
    fenced, found = None, []
    for line in (folder / "points").read_text().splitlines():
        named, label, at = line.split()
        if named == move and label == "fence.before":
            fenced = float(at)
        elif named == move and label in ENDS and fenced is not None:
            found.append((fenced, float(at)))
            fenced = None
    return found


def beside(times, fenced, ended):
    """Return the writes until the last one before a fence, and from the first one after its end, each in a window."""
    last, first = bisect(times, fenced), bisect(times, ended)
    if last == 0 or first == len(times):
        return 0, 0
    before = last - bisect(times, times[last - 1] - WINDOW_SECONDS)
    return before * KEYS, (bisect(times, times[first] + WINDOW_SECONDS) - first) * KEYS
