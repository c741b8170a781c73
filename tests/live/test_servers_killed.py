"""The servers of a move are killed at each stop point of its mover: no acknowledged write is lost, and others go on.

Each point has a victim, the source or the target. The victim comes back at once, or stays away until each shard that
lives has acknowledged writes. `APPORTION_GROUP_RUNS=500` asks for all points, and `make test` takes some of them.
A mover that is killed and has no successor leaves nobody behind its fence: the writers end it.
"""

import asyncio
import os
import time
from contextlib import ExitStack, closing, contextmanager
from itertools import count

import pytest

import apportion.sync
from apportion.errors import StoreUnavailable
from tests.live.server_kills import Died, ServerKills
from tests.live.shard_movers import carried_out
from tests.live.shard_verdict import read_shard, verdict
from tests.live.slot_writers import MOVING, Acknowledged
from tests.live.test_shards_killed import Movers
from tests.live.writer_processes import servers, writing
from tests.shards.postgres_rig import LOGICAL
from tests.shards.sample import SET, Base
from tests.shards.server import OWNER, as_role
from tests.shards.test_postgres_native import Pair
from tests.stores.rigs.postgres import USER, PostgresRig

pytestmark = [pytest.mark.live, pytest.mark.crowded, pytest.mark.timeout(1800)]

IS_LONG = os.environ.get("APPORTION_GROUP_RUNS") == "500"
WRITERS, MOVED_SLOTS, LEAST_ACKNOWLEDGED = 6, 8, 300
SELDOM = frozenset({"apply-log", "drain", "tail"})
"""The steps that a move has only if writes come at the right time."""


def sides(*steps):
    """Return both labels of each step."""
    return [f"{step}.{side}" for step in steps for side in ("before", "after")]


WAY = ("apply-log", "verify", "intent", "fence", "drain", "tail", "announce", "switch", "settle")


def there(orders):
    """Move, and clean up."""
    orders.over(orders.named())


def there_and_back(orders):
    """Move, go back, and clean up."""
    move = orders.named()
    orders.order(move, "there")
    orders.order(move, "back")
    orders.over(move)


def there_to_stay(orders):
    """Make a move that could go back, and clean up."""
    move = orders.named()
    orders.order(move, "there")
    orders.over(move)


def given_up(orders):
    """Abort a move under its fence."""
    move = orders.named()
    orders.order(move, "go", stop="announce.after")
    orders.over(move, "abort")


def stayed(orders):
    """Abort a move on its way back."""
    move = orders.named()
    orders.order(move, "there")
    orders.order(move, "back", stop="fence.after")
    orders.over(move, "abort")


def paused(orders):
    """Pause a move under its fence, and go on."""
    move = orders.named()
    orders.order(move, "go", stop="announce.after")
    orders.order(move, "pause")
    orders.over(move)


COURSES = {
    there: sides("list", "prepare", "record", "capture", "chunk", *WAY, "uncapture", "clean-batch", "release"),
    there_and_back: sides("capture-back", "reverse", "prepare", "record", *WAY),
    there_to_stay: sides("forgo", "uncapture-back"),
    given_up: sides("abort-record", "unfence", "drop", "uncapture", "release"),
    stayed: sides("abort-record", "unfence", "drop", "clean-back", "uncapture", "release"),
    paused: sides("retreat", "unfence", "withdraw"),
}
SOME = {
    there: {
        "capture.after": ("source", "back"),
        "chunk.before": ("target", "away"),
        "verify.before": ("source", "away"),
        "intent.after": ("target", "back"),
        "fence.after": ("target", "away"),
        "announce.before": ("source", "back"),
        "announce.after": ("target", "back"),
        "switch.before": ("source", "away"),
        "switch.after": ("source", "away"),
        "settle.after": ("target", "back"),
        "clean-batch.before": ("target", "away"),
        "release.before": ("source", "back"),
    }
}
"""The points of `make test`, each with its victim and its fate."""

FATES = ("back", "away")


def rounds(victim):
    """Return the courses with their points: each label with both fates of a victim, or some labels for both victims."""
    if victim == "some":
        yield from SOME.items()
        return
    for first in (0, 1):
        for course, labels in COURSES.items():
            yield course, {label: (victim, FATES[(first + number) % 2]) for number, label in enumerate(labels)}


class Orders:
    """Movers, one after another, in this process. `due` has the labels at which a server is killed."""

    def __init__(self, files, channel, kills):
        self._files, self._channel, self._kills = files, channel, kills
        self._moves, self._epochs, self._over = count(1), count(1), set()
        self._place, self._ends, self._course = "one", ("one", "two"), None
        self.due, self.left, self.missed = {}, [], []

    def play(self, course, due):
        """Play a course with kills, again for labels that were passed while a server was away."""
        self._course, self.due, left = course.__name__, dict(due), len(due) + 1
        while len(self.due) < left and self.due:
            left = len(self.due)
            course(self)
        self._kills.join()
        self.missed += [label for label in self.due if label.partition(".")[0] not in SELDOM]
        self.due = {}

    def named(self):
        """Name a move to the other shard."""
        self._ends = ("one", "two") if self._place == "one" else ("two", "one")
        return f"m{next(self._moves)}"

    def over(self, move, wish="go"):
        """Carry out a move to its end."""
        while self.order(move, wish):
            pass

    def order(self, move, wish, stop=None):
        """Let a mover go on with a move, until it ends or dies at a stop point. Return its record, or None."""
        reached = self._reached(move, stop)
        given = (move, *self._ends, (self._files.folder / MOVING).read_text(), str(next(self._epochs)), wish)
        while True:
            try:
                entry, left = asyncio.run(self._carried_out(given, reached))
            except Died:
                return stop
            except StoreUnavailable:  # before a move begins, nobody waits for a shard
                time.sleep(0.05)
                continue
            if entry is None:
                self.left += left
                self._place = self._owner()
            return entry

    async def _carried_out(self, given, reached):
        places = {shard: self._files.place(shard) for shard in ("one", "two")}
        is_over = given[0] in self._over
        return await carried_out(self._files.url, self._channel, places, given, reached, is_over=is_over)

    def _reached(self, move, stop):
        stops = [stop]

        def reached(label):
            if label == "release.before":
                self._over.add(move)
            if label in self.due and self._kills.may_begin():
                victim, fate = self.due.pop(label)
                shard = self._ends[0 if victim == "source" else 1]
                self._kills.kill(f"{self._course} {label} {victim} {fate}", shard, stays_away=fate == "away")
            if label == "reverse.after":
                self._ends = self._ends[::-1]
            if label in stops:
                stops.remove(label)
                raise Died

        return reached

    def _owner(self):
        slot = (self._files.folder / MOVING).read_text().partition(",")[0]
        for shard in ("one", "two"):
            if self._files.sql(shard, f"SELECT slot FROM apportion_slot WHERE state <> 'moved' AND slot = {slot}"):
                return shard
        raise AssertionError(slot)


@contextmanager
def apart(folder, monkeypatch):
    """Yield two shards, each on a server of its own, and the environment of the role that writes."""
    with ExitStack() as stack:
        rigs = []
        for _ in range(2):
            rigs.append(PostgresRig(settings=("fsync = off", *LOGICAL)))
            stack.callback(rigs[-1].stop)
        as_role(monkeypatch, OWNER)
        files = Pair(rigs, folder)
        yield files, os.environ | {"SERVER_ROLE": USER}


@contextmanager
def killed(files, env):
    """Let writers write within the block, and yield the kills of servers. At its end no living shard has stood."""
    slots = files.sql("one", "SELECT slot FROM apportion_slot ORDER BY slot")[:MOVED_SLOTS]
    slots = [slot for (slot,) in slots]
    (files.folder / MOVING).write_text(",".join(map(str, slots)))
    with (
        apportion.sync.open_shards(files.url, SET, base=Base) as router,
        writing("tests.live.slot_writers", files, WRITERS, env),
    ):
        kills = ServerKills(files, router, Acknowledged(files.folder), slots)
        try:
            yield kills
        finally:
            kills.join()
    assert [] == kills.stuck


def judged(files, record_property, points):
    """Judge the ledgers and the rows."""
    result = verdict(files.folder, [read_shard(files, shard) for shard in ("one", "two")])
    record_property("acknowledged", result.acknowledged)
    record_property("figures", points)
    assert {"lost": 0, "stale": 0, "resurrected": 0, "owned_twice": 0} == result.harm
    assert result.acknowledged >= LEAST_ACKNOWLEDGED


@pytest.mark.parametrize("channel", ["keys", pytest.param("native", marks=pytest.mark.soak)])
@pytest.mark.parametrize("victim", ["source", "target"] if IS_LONG else ["some"])
def test_no_write_is_lost_when_a_server_is_killed_and_the_living_shard_goes_on(
    tmp_path, record_property, monkeypatch, victim, channel
):
    with apart(tmp_path, monkeypatch) as (files, env):
        with killed(files, env) as kills:
            orders = Orders(files, channel, kills)
            for course, due in rounds(victim):
                orders.play(course, due)
        judged(files, record_property, f"kill points of servers ({victim}, {channel}): {len(kills.done)}")
    assert ([], []) == (orders.missed, orders.left)
    assert len(kills.done) == len(set(kills.done)) >= (150 if IS_LONG else 12)


@(pytest.mark.live if IS_LONG else pytest.mark.soak)
def test_writers_end_the_fence_of_a_mover_that_was_killed_and_has_no_successor(tmp_path, record_property, monkeypatch):
    points = COURSES[there] if IS_LONG else ["fence.after"]
    with servers(tmp_path, monkeypatch) as (files, _, env):
        with killed(files, env) as kills:
            slots = (files.folder / MOVING).read_text().split(",")
            with closing(Movers(files, slots, env, is_elected=True)) as movers:
                leave(movers, points, kills)
        judged(files, record_property, f"kill points of a mover without a successor: {len(movers.kills)}")
    seldom = {label for label in points if label.partition(".")[0] in SELDOM}
    assert ([], set()) == (movers.left, {*points} - {*movers.kills} - seldom)


def leave(movers, points, kills):
    """Kill movers at each point, and let writers go on alone. Then the next mover goes on with the move."""
    move = movers.move()
    for point in points:
        while (word := movers.order(move, point)) == "fenced":
            pass
        if word == "killed":
            kills.await_writes(point, time.monotonic())
        else:
            movers.place = move.split()[2]
            move = movers.move()
    while movers.order(move) != "over":
        pass
