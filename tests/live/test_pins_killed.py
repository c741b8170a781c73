"""A mover is killed at each stop point of a pin, while writers write its key: no acknowledged write is lost or hidden.

The next mover pins the same key, or ends the pin alone. Then the slots of the keys move, and those movers are killed
too. Afterwards only the ledgers, the shards and the records are read.
"""

import asyncio
import os
import subprocess
import sys
from contextlib import closing
from itertools import count

import pytest

import apportion.sync
from apportion.shards import admin
from tests.live.pin_writers import KEYS_OF_WRITER, keys
from tests.live.shard_verdict import read_shard, verdict
from tests.live.test_shards_killed import Movers
from tests.live.writer_processes import servers, writing
from tests.shards.sample import SET, SLOTS, Base, Files

WRITERS = 4
STEPS = [f"{step}.{side}" for step in ("publish", "raise", "own", "unlist") for side in ("before", "after")]
TAKEN_BACK = [("raise.after", "take-back.before"), ("publish.after", "take-back.after")]
MOVED = ["capture.after", "chunk.after", "fence.after", "drain.after", "announce.after", "switch.after", "settle.after"]
KEYS = [key for number in range(KEYS_OF_WRITER) for key in [keys(writer)[number] for writer in range(WRITERS)]]


class Pins:
    """The process that forks movers, and the orders to it."""

    def __init__(self, files, env):
        places = [f"{shard}={files.place(shard)}" for shard in ("one", "two")]
        command = [sys.executable, "-m", "tests.live.shard_pins", files.url, *places]
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert "ready" == self._process.stdout.readline().strip()
        self._epochs = count(1)
        self.kills = []

    def pin(self, key, stop="-"):
        """Pin a key. A mover with a stop point is killed there, unless a router has ended the pin before."""
        self._process.stdin.write(f"{key} {next(self._epochs)} {stop}\n")
        self._process.stdin.flush()
        word = self._process.stdout.readline().strip()
        assert word in (("over",) if stop == "-" else ("over", "killed")), (key, stop, word)
        self.kills += [stop] if word == "killed" else []

    def close(self):
        """Let the process end."""
        self._process.stdin.close()
        self._process.wait(30)


def pin_all(pins):
    """Pin keys, and kill a mover at each stop point. The next mover pins the same key, or ends the pin alone."""
    others = iter(KEYS)
    for number, stop in enumerate(STEPS):
        key = next(others)
        pins.pin(key, stop)
        if number % 2:
            pins.pin("-")
        pins.pin(key)
    for first, second in TAKEN_BACK:
        key = next(others)
        pins.pin(key, first)
        pins.pin(key, second)
        pins.pin(key)


def moved(files, env):
    """Move the slots of keys to the other shard, and back, with kills on the way."""
    slots = own_slots(files, "one")
    with closing(Movers(files, slots, env)) as movers:
        for stops in (MOVED, ["verify.after", "fence.before", "switch.before", "clean-batch.after"]):
            move = movers.move()
            for stop in stops:
                if movers.order(move, stop) == "over":
                    break
            while movers.order(move) != "over":
                pass
            movers.place = move.split()[2]
    assert [] == movers.left
    return movers.kills


def own_slots(files, shard):
    """Return the own slots of keys on a shard."""
    owners = asyncio.run(admin.status(files.url, SET)).table.owners
    return sorted(slot for slot, owner in owners.items() if slot >= SLOTS and owner == shard)


@pytest.mark.live
@pytest.mark.crowded
@pytest.mark.timeout(600)
def test_no_acknowledged_write_of_a_key_is_lost_when_its_pin_is_killed_at_any_point(tmp_path, record_property):
    check_pins(Files(tmp_path), record_property, os.environ, os.environ)


@pytest.mark.live
@pytest.mark.crowded
@pytest.mark.timeout(600)
def test_none_is_lost_on_servers_either(tmp_path, record_property, monkeypatch):
    with servers(tmp_path, monkeypatch) as (files, user, owner):
        check_pins(files, record_property, user, owner)


def check_pins(files, record_property, user, owner):
    """Kill movers that pin keys beside writers, each with the environment of its role, and judge."""
    with writing("tests.live.pin_writers", files, WRITERS, user), closing(Pins(files, owner)) as pins:
        pin_all(pins)
        kills = [*pins.kills, *moved(files, owner)]
    lines = [line.split() for ledger in files.folder.glob("ledger-*") for line in ledger.read_text().splitlines()]
    result = verdict(files.folder, [read_shard(files, shard) for shard in ("one", "two")])
    record_property("kills", len(kills))
    record_property("acknowledged", result.acknowledged)
    assert {"lost": 0, "stale": 0, "resurrected": 0, "owned_twice": 0} == result.harm
    assert [] == [line for line in lines if line[0] == "X"]
    check_served(files)
    assert {*STEPS, *(stop for stops in TAKEN_BACK for stop in stops), *MOVED[:-1]} <= {*kills}
    assert set(KEYS) == {line[1] for line in lines if line[0] == "A"}
    assert result.acknowledged >= 1_000


def check_served(files):
    """Check that the doctor and the comparison of all rows find nothing, and that each pinned key has its slot."""
    found = asyncio.run(admin.doctor(files.url, SET, base=Base, is_whole=True))
    assert [] == [(each.subject, each.found) for each in found if each.verdict != "ok"]
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        pinned = [key for key in KEYS if router.slot(key) >= SLOTS]
        assert KEYS[: len(STEPS) + len(TAKEN_BACK)] == pinned
    assert asyncio.run(admin.verify(files.url, SET, base=Base)).is_sound
