"""Guarded writes of many processes that are paused and killed between check and write: no stale one is accepted.

APPORTION_GROUP_RUNS= is how many pauses and kills there are on each store, at least.
"""

import asyncio
import math
import os
import random
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from tests.live.crew import Crew, target_of
from tests.stores.rigs import absent
from tests.stores.rigs.etcd import EtcdRig
from tests.stores.rigs.postgres import PostgresRig
from tests.stores.rigs.sqlite import SqliteRig

pytestmark = pytest.mark.live
RUNS = int(os.environ.get("APPORTION_GROUP_RUNS", "36"))
MEMBERS, PARTITIONS = 20, 40
PAUSED, KILLED = 11, 1  # at once
ROUNDS = math.ceil(RUNS / (PAUSED + KILLED))
TRIED_RATIO = 0.9


@pytest.fixture
def rig(request):
    try:
        made = request.param()
    except FileNotFoundError as error:
        absent(str(error))
    yield made
    asyncio.run(made.close())


@pytest.fixture
def crew(rig, tmp_path):
    target = target_of(rig) if isinstance(rig, PostgresRig) else str(tmp_path / "work.db")
    ttl = 2.0 if isinstance(rig, EtcdRig) else 1.0
    work = {"beat_seconds": 1.0}
    made = Crew(rig.url("guarded"), target, tmp_path / "errors", partitions=PARTITIONS, lease_ttl=ttl, work=work)
    yield made
    made.end()


def roomy_postgres():
    return PostgresRig(settings=("max_connections = 200",))


@pytest.mark.timeout(300 + 4 * RUNS)
@pytest.mark.parametrize("rig", [SqliteRig, roomy_postgres, EtcdRig], indirect=True, ids=["sqlite", "postgres", "etcd"])
def test_no_stale_write_is_accepted(crew, record_property):
    crew.start(*(f"m{number:02}" for number in range(MEMBERS)))
    drawn, came, pauses, kills = random.Random(7), Counter(), 0, 0
    for round_ in range(ROUNDS):
        crew.until_settled()
        victims = drawn.sample(sorted(crew.processes), PAUSED + KILLED)
        stalled = crew.stall(*victims)
        start, killed, paused = len(crew.lines), victims[:KILLED], victims[KILLED:]
        crew.kill(*killed)
        crew.pause(*paused)
        crew.until("a write of another owner", written_by_others, crew, stalled, start)
        pauses, kills = pauses + len(paused), kills + len(killed)
        for outcome in crew.go_on(*paused).values():
            came.update({outcome["write"]: 1, "not owner": not outcome["is_owner"]})
        crew.start(*(f"r{round_:02}-{number}" for number in range(KILLED)))
    crew.until_settled()
    told = f"{MEMBERS} owners, {pauses} paused: {came['fenced']} writes fenced, {came['effect']} accepted"
    record_property("figures", f"{told}, {came['not owner']} saw that they own nothing; {len(crew.effects())} effects")
    assert pauses + kills >= RUNS
    assert [] == stale(crew.effects())
    assert came["fenced"] >= TRIED_RATIO * pauses


def written_by_others(crew, stalled, start):
    """Whether all partitions on which somebody stalled were written by somebody else."""
    seen = defaultdict(set)
    for line in crew.effects(start=start):
        seen[line["partition"]].add(line["member"])
    return all(seen[partition] - {name} for name, partition in stalled.items())


def stale(effects):
    """Return the pairs of effects on one partition of which the later has the older token, or one token two holders."""
    found, by_partition = [], defaultdict(list)
    for effect in effects:
        by_partition[effect["partition"]].append(effect)
    for line in by_partition.values():
        found += [(old, new) for old, new in pairwise(line) if new["epoch"] < old["epoch"]]
        holders = defaultdict(set)
        for effect in line:
            holders[tuple(effect["epoch"])].add(effect["holder"])
        found += [(epoch, several) for epoch, several in holders.items() if len(several) > 1]
    return found
