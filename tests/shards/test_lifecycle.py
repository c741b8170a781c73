"""The step of each shard comes from the status of the set alone, and each step names the command that ends it."""

import asyncio
from dataclasses import replace

import pytest

from apportion.shards import admin
from apportion.shards.admin.lifecycle import lifecycle
from apportion.shards.admin.status import MoveStatus, SetStatus, ShardStatus
from apportion.shards.slots import SlotTable
from apportion.tables.layout import Version
from tests.shards.sample import SET, Base
from tests.shards.server import OWNER, as_role

ONE = ShardStatus(id="one", url="", weight=1.0, slots=64)
TWO = ShardStatus(id="two", url="", weight=1.0, slots=64)
NEW = ShardStatus(id="two", url="", weight=0.0, slots=0, has_owned=False)
DRY = ShardStatus(id="two", url="", weight=0.0, slots=0, rows=0)
MOVE = MoveStatus(id="a-000", state="planned", source="one", target="two", slots=4, since=1_000.0)
AWAY = replace(MOVE, source="two", target="one")
NOW = 1_060.0


def steps(two, *moves):
    """Return the step of shard two beside a shard with all other slots."""
    version = Version(incarnation=1, number=1)
    table = SlotTable(version=version, hash_slots=64, owners={}, pinned={})
    status = SetStatus(name=SET, version=version, hash_slots=64, shards=(ONE, two), moves=moves, table=table)
    return lifecycle(status, now=NOW, soak_seconds=600.0)


@pytest.mark.parametrize(
    ("two", "moves", "step", "why", "command"),
    [
        (NEW, (), "added", "weight 0, and no slot yet", "plan URL world --weight two=1 -o plan.json"),
        (replace(NEW, weight=2.0), (), "planned", "weight 2, and no slot yet", "plan URL world -o plan.json"),
        (replace(NEW, weight=1.0), (MOVE,), "planned", "1 move before the switch (planned)", "apply URL world"),
        (
            replace(NEW, weight=1.0),
            (MOVE, replace(MOVE, state="complete")),
            "moving",
            "1 move before the switch (planned)",
            "apply URL world",
        ),
        (
            TWO,
            (replace(MOVE, state="copying"), replace(MOVE, state="fenced", wish="pause")),
            "moving",
            "2 moves before the switch (copying, fenced), 1 paused",
            "apply URL world",
        ),
        (TWO, (replace(MOVE, state="aborted"),), "moving", "1 move to take back", "abort URL world"),
        (TWO, (replace(MOVE, state="copying", wish="abort"),), "moving", "1 move to take back", "abort URL world"),
        (
            TWO,
            (replace(MOVE, state="switched"), replace(MOVE, state="complete")),
            "published",
            "the new owner has the slots, and the move is not over",
            "apply URL world",
        ),
        (
            TWO,
            (replace(MOVE, state="complete"),),
            "soaking",
            "old rows of 1 move stay on one, and may be deleted in 540 s",
            "clean URL world",
        ),
        (
            TWO,
            (replace(MOVE, state="complete", since=400.0), replace(MOVE, state="cleaned", since=300.0)),
            "soaking",
            "old rows of 2 moves stay on one, and may be deleted",
            "clean URL world",
        ),
        (TWO, (), "clean", "64 slots, and no move", ""),
        (replace(TWO, weight=0.0), (), "draining", "weight 0, 64 slots left", "drain URL world two"),
        (
            replace(TWO, weight=0.0),
            (replace(AWAY, state="copying"),),
            "draining",
            "1 move before the switch (copying)",
            "apply URL world",
        ),
        (
            replace(TWO, weight=0.0, slots=60),
            (replace(AWAY, state="complete"),),
            "draining",
            "weight 0, 60 slots left",
            "drain URL world two",
        ),
        (replace(TWO, weight=0.0), (replace(MOVE, state="copying"),), "moving", None, "apply URL world"),
        (replace(TWO, weight=0.0), (replace(MOVE, state="complete"),), "soaking", None, "clean URL world"),
        (replace(DRY, rows=9), (replace(AWAY, state="complete"),), "soaking", None, "clean URL world"),
        (DRY, (), "removable", "weight 0, no slot, and no row", "remove URL world two"),
        (replace(DRY, rows=None), (), "removable", None, "remove URL world two"),
        (
            replace(DRY, rows=1),
            (),
            "draining",
            "weight 0, no slot, and 1 row of no move",
            "verify URL world --models MODULE:NAME",
        ),
    ],
)
def test_a_shard_is_in_one_step_with_one_next_command(two, moves, step, why, command):
    _, told = steps(two, *moves)
    assert (step, f"apportion shards {command}" if command else "") == (told.step, told.command)
    assert why in (None, told.why)


def test_both_shards_of_a_move_are_in_its_step_and_a_third_one_is_not():
    third = replace(TWO, id="three")
    version = Version(incarnation=1, number=1)
    table = SlotTable(version=version, hash_slots=64, owners={}, pinned={})
    moves = (replace(MOVE, state="copying"),)
    status = SetStatus(name=SET, version=version, hash_slots=64, shards=(ONE, third, TWO), moves=moves, table=table)
    told = lifecycle(status, now=NOW, soak_seconds=600.0)
    assert [("one", "moving"), ("three", "clean"), ("two", "moving")] == [(each.shard, each.step) for each in told]


def test_a_shard_goes_through_its_steps_from_its_addition_to_its_removal(kind, make_set, monkeypatch):
    as_role(monkeypatch, OWNER)
    files = make_set(kind)
    place = files.place("three")

    def act(name, *words, **options):
        return asyncio.run(getattr(admin, name)(files.url, SET, *words, **options))

    def step(soak_seconds=600.0):
        status = act("status", has_rows=True)
        return {each.shard: each.step for each in lifecycle(status, now=status_time, soak_seconds=soak_seconds)}

    status_time = 2_000_000_000.0
    seen = []
    act("add", {"three": place}, base=Base)
    seen.append(step()["three"])
    act("apply", act("plan", weights={"three": 1.0}))
    seen.append(step()["three"])
    act("clean", soak=admin.SOAK * 0)
    seen.append(step()["three"])
    act("apply", act("plan", weights={"three": 0.0}))
    seen.append(step()["three"])
    act("clean", soak=admin.SOAK * 0)
    seen.append(step()["three"])
    assert ["added", "soaking", "clean", "soaking", "removable"] == seen
    act("remove", "three")
    assert {"one": "clean", "two": "clean"} == step()
