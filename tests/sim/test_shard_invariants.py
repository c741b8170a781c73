"""The invariants of shards: each broken promise is found from facts alone, and lawful histories are left alone."""

import pytest

from apportion.shards.slot_rows import SlotRow
from apportion.sim.facts import Calm
from apportion.sim.invariants.shards import INVARIANTS, SETTLE_SECONDS
from apportion.sim.invariants.store import Checker
from apportion.sim.shard_facts import (
    MoveLeftBehind,
    MoveSeen,
    RouterAsked,
    RowPlace,
    RowSeen,
    SlotRowsSeen,
    SlotSwept,
    TableSeen,
    WriteBegan,
    WriteEnded,
)
from apportion.tables.layout import Version

PLACE = RowPlace(0, "place", "FR")


def version(number):
    return Version(incarnation=1, number=number)


def owner(shard, number=None, state="owner"):
    return SlotRowsSeen(at=0.0, shard=shard, rows={0: SlotRow(state=state, number=number)})


def table(number, shard):
    return TableSeen(at=0.0, version=version(number), owners={0: shard})


def move(state, name="m", source="a", target="b"):
    return MoveSeen(at=0.0, move=name, state=state, source=source, target=target, slots=(0,))


def seen(write, shard="a", home=0):
    return RowSeen(at=0.0, shard=shard, place=PLACE, write=write, home=home)


def began(write, at, is_deletion=False):
    return WriteBegan(at=at, write=write, place=PLACE, is_deletion=is_deletion)


def ended(write, at, is_done=True):
    return WriteEnded(at=at, write=write, is_done=is_done)


def broken(*facts):
    """Return the numbers of the promises that facts break."""
    checker = Checker(INVARIANTS)
    for fact in facts:
        checker.add(fact)
    return {each.what.partition(":")[0] for each in checker.violations}


def pinned(number, slot=7):
    """Return a table in which the key of the row has a slot of its own."""
    return TableSeen(at=0.0, version=version(number), owners={0: "a", slot: "a"}, pinned={"FR": slot})


def both(own=7):
    """Return the rows of a shard that accepts the hash slot of the key, and its own slot."""
    row = SlotRow(state="owner", number=version(2))
    return SlotRowsSeen(at=0.0, shard="a", rows={0: row, own: row})


A = (owner("a"), table(1, "a"))
WRITTEN = (*A, began(1, 1.0), seen(1), ended(1, 2.0))


@pytest.mark.parametrize(
    "facts",
    [
        WRITTEN,
        (*WRITTEN, began(2, 3.0), seen(2)),  # nobody heard of the second one: it may be shown
        (*WRITTEN, began(2, 1.5), ended(2, 2.5)),  # two at once: either may be the last
        (*WRITTEN, began(2, 3.0, is_deletion=True), seen(None), ended(2, 4.0)),
        (*WRITTEN, began(2, 3.0), ended(2, 4.0, is_done=False)),
        (*A, owner("b", version(2), "incoming")),  # no table names b yet
        (*A, owner("b", None, "incoming"), table(2, "b"), owner("a", None, "moved")),
        (*A, move("aborted"), owner("b", None, "incoming")),
        (*A, owner("a", None, "moved"), SlotSwept(at=0.0, shard="a", slot=0)),
        (*A, pinned(2), both(), began(1, 1.0), ended(1, 2.0, is_done=False)),
        (*WRITTEN, pinned(2), table(3, "a")),  # a key with rows keeps its hash slot: the pin is taken back
    ],
)
def test_lawful_histories_break_nothing(facts):
    assert set() == broken(*facts)


@pytest.mark.parametrize(
    ("promise", "facts"),
    [
        ("S1", (*A, owner("b"))),
        ("S1", (*A, owner("b", version(2), "incoming"), table(2, "b"))),
        ("S1", (table(1, "b"), owner("b", version(1), "incoming"), owner("a"), table(2, "a"))),
        ("S2", (*A, began(1, 1.0), ended(1, 2.0))),
        ("S2", (*WRITTEN, began(2, 3.0), seen(2), ended(2, 4.0), seen(1))),
        ("S2", (*A, began(1, 1.0), ended(1, 2.0, is_done=False), seen(1))),
        ("S2", (*WRITTEN, owner("b", version(2), "incoming"), owner("a", None, "fenced"), table(2, "b"))),
        ("S3", (*WRITTEN, began(2, 3.0, is_deletion=True), ended(2, 4.0))),
        ("S4", (*A, move("switched"))),
        ("S4", (owner("b"), move("aborted"))),
        ("S6", (*A, began(1, 1.0), seen(1, home=3))),
        ("S6", (*WRITTEN, pinned(2), both())),
        ("S6", (*A, pinned(2), both(), began(1, 1.0), seen(1))),
        ("S6", (*WRITTEN, both(), pinned(2))),
        ("S6", (*A, pinned(2), both(), table(3, "a"))),
        ("S6", (*A, pinned(2), table(3, "a"), both())),
        ("S7", (*A, SlotSwept(at=0.0, shard="a", slot=0))),
        ("S7", (*A, owner("a", None, "fenced"), SlotSwept(at=0.0, shard="a", slot=0))),
        ("S8", (MoveLeftBehind(at=0.0, shard="b", move="m", names=("log",)),)),
        ("S5", (Calm(at=0.0), RouterAsked(at=SETTLE_SECONDS, slot=0, refreshes=None))),
        ("S5", (Calm(at=0.0), RouterAsked(at=SETTLE_SECONDS, slot=0, refreshes=3))),
        ("S9", (move("fenced"), Calm(at=0.0), RouterAsked(at=SETTLE_SECONDS, slot=0, refreshes=0))),
    ],
)
def test_each_broken_promise_is_found(promise, facts):
    assert promise in broken(*facts)


def test_a_slot_that_comes_back_is_accepted_by_its_former_source():
    back = move("switched", name="n", source="b", target="a")
    assert set() == broken(*A, owner("a", None, "moved"), move("switched"), back, owner("a", version(3)), table(3, "a"))


def test_an_invariant_that_is_alone_takes_the_facts_too():
    for each in INVARIANTS[1:]:
        checker = Checker([each])
        for fact in (*A, began(1, 1.0), ended(1, 2.0), move("fenced"), Calm(at=0.0)):
            checker.add(fact)
        checker.add(RouterAsked(at=SETTLE_SECONDS, slot=0, refreshes=0))
        assert {each.__name__} == {violation.invariant for violation in checker.violations}
