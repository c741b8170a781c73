"""A mover that isolates a key is killed at each of its stop points, while eight writers write the key and other keys.

No acknowledged write is lost or comes back: neither of the key, nor of the other keys of its slot. The first key has a
fifth of all rows. Afterwards only the ledgers, the shards and the records are read.
"""

import asyncio
import os
from contextlib import closing
from uuid import UUID

import pytest

import apportion.sync
from apportion.shards import admin
from tests.live.shard_verdict import read_shard, verdict
from tests.live.shard_writers import countries
from tests.live.test_shards_killed import ABORT, ABORTED_AT, COURSE, EVERY, Movers, pause, windows
from tests.live.writer_processes import servers, writing
from tests.shards.sample import SET, SLOTS, Base, Files, Photo, Place

WRITERS, ROWS = 8, 2_000
POINTS = [f"{step}.{side}" for step in COURSE for side in ("before", "after")]
LEAST_KILLS = {1: 40, 3: 15}


class Isolations(Movers):
    """Movers that isolate one key after another."""

    def __init__(self, files, keys, env):
        super().__init__(files, [0], env)
        self._keys, self._own, self.isolated = iter(keys), SLOTS, []

    def move(self):
        """Name the isolation of the next key."""
        slot, key = next(self._keys)
        self._slots, self.isolated = f"{slot}={key}={self._own}", [*self.isolated, key]
        self._own, self.place = self._own + 1, "one"
        return super().move()


def filled(files, writer_keys):
    """Give a fifth of the rows to the first key of a writer, with a child each, and the others to many keys."""
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        for part in range(10):
            key = writer_keys[0][1] if part < 2 else f"filler-{part}"

            def work(session, part=part, key=key):
                for number in range(part * ROWS // 10, (part + 1) * ROWS // 10):
                    photos = [Photo(id=UUID(int=number))]
                    session.add(Place(id=UUID(int=number), country=key, photos=photos))

            router.run(key, work)


def keys_of_writers(files):
    """Return the slot and the name of keys of writers, each writer in turn."""
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        named = zip(*(countries(router, writer) for writer in range(WRITERS)), strict=True)
        return [(router.slot(key), key) for turn in named for key in turn]


def climb(isolations, points):
    """Kill movers at each point of an isolation; a point that is not reached ends it, and the next one begins."""
    move = isolations.move()
    for point in points:
        if isolations.order(move, point) == "over":
            move = isolations.move()
    while isolations.order(move) != "over":
        pass


def abort(isolations, stops):
    """Kill a mover at a point, and then abort the isolation, with kills on the way of the last one."""
    points = iter(ABORT)
    for stop in stops:
        move = isolations.move()
        isolations.isolated.pop()
        assert "killed" == isolations.order(move, stop)
        while isolations.order(move, next(points, "-") if stop == stops[-1] else "-", wish="abort") != "over":
            pass


@pytest.mark.live
@pytest.mark.crowded
@pytest.mark.timeout(900)
def test_no_acknowledged_write_is_lost_when_an_isolation_is_killed_at_any_point(tmp_path, record_property):
    check_killed(Files(tmp_path), record_property, os.environ, os.environ)


@pytest.mark.live
@pytest.mark.crowded
@pytest.mark.timeout(900)
def test_none_is_lost_between_servers_either(tmp_path, record_property, monkeypatch):
    with servers(tmp_path, monkeypatch) as (files, user, owner):
        check_killed(files, record_property, user, owner, every=EVERY)


def check_killed(files, record_property, user, owner, *, every=1):
    """Kill movers beside writers at every point, or at one in `every`, each with the environment of its role; judge."""
    keys = keys_of_writers(files)
    filled(files, keys)
    with (
        writing("tests.live.shard_writers", files, WRITERS, user),
        closing(Isolations(files, keys, owner)) as isolations,
    ):
        climb(isolations, POINTS[::every])
        abort(isolations, ABORTED_AT[::-every][::-1])
        pause(isolations)
    result = verdict(files.folder, [read_shard(files, shard) for shard in ("one", "two")])
    record_property("figures", f"kill points of isolations on {files.kind}: {len(isolations.kills)}")
    record_property("acknowledged", result.acknowledged)
    record_property("around", f"{windows(files.folder, result.times)}")
    assert {"lost": 0, "stale": 0, "resurrected": 0, "owned_twice": 0} == result.harm
    assert [] == isolations.left
    assert len(isolations.kills) >= LEAST_KILLS[every]
    assert result.acknowledged >= 1_000
    check_served(files, isolations.isolated)


def check_served(files, isolated):
    """Check the rows of the first key, that each isolated key has its slot on the other shard, and the whole set."""
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        assert {(True, "two")} == {(router.slot(key) >= SLOTS, router.shard(key)) for key in isolated}
        own = router.slot(isolated[0])
    [(photos,)] = files.sql("two", "SELECT count(*) FROM photo WHERE slot = ?", (own,))
    assert ROWS // 5 == photos
    assert asyncio.run(admin.verify(files.url, SET, base=Base)).is_sound
    found = asyncio.run(admin.doctor(files.url, SET, base=Base, is_whole=True))
    assert [] == [(each.subject, each.found) for each in found if each.verdict != "ok"]
