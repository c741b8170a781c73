"""The suite finds task stores that break a promise, and the cases that find each of them are these."""

import pytest

from apportion.errors import ApportionError, NotPromised
from apportion.sim.conformance import Impossible, cases, check
from apportion.sim.conformance.promises import task_triggers
from tests.stores import broken_tasks
from tests.stores.rigs.memory import MemoryRig

CASES = {case.name: case for case in cases()}
NO_OPEN_CLAIM = "a receipt of no open claim is refused and changes nothing"
LAST_CLAIM = "a receipt before the last claim is refused"
FOUND_BY = {
    "AnyAttempt": (NO_OPEN_CLAIM, LAST_CLAIM),
    "AnySession": (NO_OPEN_CLAIM,),
    "AnyReceipt": (NO_OPEN_CLAIM, LAST_CLAIM, "a claim is settled once"),
    "Hasty": ("the tasks of a renewed session stay its own", "a claim is taken over only after the end of its session"),
    "Undead": ("a session that has ended claims nothing",),
    "Torn": ("a session that has ended claims nothing",),
    "NewFirst": ("work of ended sessions comes first in half of the places",),
    "Recycling": ("attempts only grow", LAST_CLAIM),
    "Strict": ("a released run counts as nothing",),
    "Obstinate": ("a completion that came first wins over a cancel",),
    "Possessive": ("a unique name is that of one open task",),
    "Doubling": ("a task enqueued twice with one id is one task",),
    "Early": ("a delayed task is not claimed before it is due",),
    "Unlimited": (
        "a paused queue is not claimed and its runs go on",
        "a limit of open claims holds for all workers",
        "a rate holds for all workers",
    ),
    "Forgiving": (
        "a task waits after its second death",
        "the tasks of many ended sessions are all taken over",
    ),
    "Restless": ("a task waits after its second death",),
    "Vengeful": ("a lapse is no death", "a lapse is told without a claim too"),
    "Silent": ("a running task that is cancelled is named to its worker",),
    "Rewriting": ("a note is read until the next attempt and refused after it",),
    "Replaying": ("no slot up to the last one is triggered",),
    "Outdated": ("a trigger counts at its version and last slot alone",),
    "Uncompared": (
        "a slot that many handles trigger at once gets one task",
        "a trigger counts at its version and last slot alone",
    ),
    "TornSlot": ("a slot that many handles trigger at once gets one task",),
    "Insistent": ("a schedule that a node cannot evaluate fires on another one",),
    "Sleepless": ("a paused schedule fires nothing until a firing resumes it",),
    "ByItsClock": (
        "a step of the clock fires a slot late and never twice",
        "due slots fire once among handles",
    ),
}


@pytest.mark.parametrize(("ledger", "name"), [(ledger, name) for ledger, names in FOUND_BY.items() for name in names])
def test_a_broken_task_store_is_found(ledger, name, monkeypatch):
    monkeypatch.setattr(task_triggers, "_MOST_LOOKS", 10)  # a ledger that fires without end is found at the last look
    with pytest.raises((AssertionError, ApportionError)):
        check(CASES[name], broken_tasks.rig_of(ledger), patience_seconds=0.3)


@pytest.mark.parametrize("name", sorted({name for names in FOUND_BY.values() for name in names}))
def test_a_sound_task_store_is_not_found_in_the_same_haste(name):
    assert check(CASES[name], MemoryRig(), patience_seconds=0.3) is None


def test_a_rig_is_not_excused_from_tasks_that_its_store_keeps():
    class Lazy(MemoryRig):
        async def deny(self):
            raise Impossible("tasks", "too much work")

    with pytest.raises(AssertionError, match="the store promises this, and its rig cannot test it: tasks"):
        check(CASES["a right to tasks that is taken for a moment is missed and then works again"], Lazy())


def test_each_case_of_tasks_is_skipped_for_a_store_that_keeps_none():
    class Without(MemoryRig):
        async def connect_tasks(self, namespace, *, address=None):
            raise NotPromised("mine://", "tasks", able=())

    assert {"tasks"} == {check(CASES[name], Without()) for names in FOUND_BY.values() for name in names}
