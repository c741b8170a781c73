"""The hand-over machine: its golden trace, and what its commits rest upon."""

from pathlib import Path

import pytest

from apportion.groups.handover import (
    TRANSITIONS,
    Act,
    HandOver,
    HandOverEvent,
    Known,
    OwnSession,
    Phase,
    outcome,
    request,
    standing,
)
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import OwnershipRecord, decoded
from apportion.stores.api import Absent, Unchanged

TRACE = Path(__file__).parents[1] / "traces" / "handover.txt"
KEYS, ME = GroupKeys(group="g"), OwnSession(id="a", session=5)


def steps():
    for line in TRACE.read_text().splitlines():
        if line.startswith("    "):
            yield line.split()


def test_the_machine_does_what_the_trace_tells():
    hand, told = HandOver(), []
    for event, _, _ in steps():
        hand, act = hand.step(HandOverEvent[event.upper()], epoch=1)
        told.append([event, "-" if act is None else act.name.lower(), hand.phase.name.lower()])
    assert list(steps()) == told


def test_the_trace_tells_of_every_act_and_every_phase():
    acts = {act for _, act, _ in steps()} - {"-"}
    assert {act.name.lower() for act in Act} == acts
    assert {phase.name.lower() for phase in Phase} == {phase for _, _, phase in steps()}


def test_what_is_not_in_the_table_changes_nothing():
    for phase in Phase:
        for event in HandOverEvent:
            if (phase, event) not in TRANSITIONS:
                assert (phase, None) == (
                    HandOver(phase=phase, served=3).step(event)[0].phase,
                    HandOver(phase=phase).step(event)[1],
                )


def known(owner=None, *, session=0, epoch=3, now=None, **more):
    record = OwnershipRecord(owner=owner, session=session, epoch=epoch)
    return Known(**{"record": record, "revision": 9, "session": now, "is_wanted": True} | more)


@pytest.mark.parametrize(
    ("given", "served", "phase", "event"),
    [
        (known(), 0, Phase.IDLE, HandOverEvent.WANTED_FREE),
        (known(is_wanted=False), 0, Phase.IDLE, None),
        (known("b", session=7, waits=True), 0, Phase.IDLE, None),
        (known("b", session=7, now=7), 0, Phase.IDLE, None),
        (known("b", session=7), 0, Phase.IDLE, HandOverEvent.WANTED_ORPHANED),
        (known("b", session=7, now=8), 0, Phase.IDLE, HandOverEvent.WANTED_ORPHANED),
        (known("b", session=7, is_wanted=False), 0, Phase.IDLE, None),
        (known("a", session=4, now=5), 0, Phase.IDLE, HandOverEvent.WANTED_ORPHANED),
        (known("a", session=5, now=5), 2, Phase.IDLE, HandOverEvent.WANTED_GRANTED),
        (known("a", session=5, now=5), 3, Phase.IDLE, HandOverEvent.WANTED_USED),
        (known("a", session=5, now=5, is_wanted=False), 2, Phase.IDLE, HandOverEvent.UNWANTED_GRANTED),
        (known("a", session=5, now=5, is_wanted=False), 3, Phase.SERVING, HandOverEvent.UNWANTED_USED),
        (known("a", session=5, now=5, is_proven=True), 3, Phase.SERVING, HandOverEvent.PROVEN),
        (known("b", session=7, now=7), 3, Phase.SERVING, HandOverEvent.TAKEN),
        (known("b", session=7, now=7), 3, Phase.DRAINING, HandOverEvent.TAKEN),
        (known(), 3, Phase.DRAINING, HandOverEvent.TAKEN),
        (known("a", session=5, now=5, epoch=9), 3, Phase.SERVING, HandOverEvent.TAKEN),
        (known("a", session=5, now=5, epoch=9, is_wanted=False), 3, Phase.SERVING, HandOverEvent.TAKEN),
    ],
)
def test_how_a_record_stands(given, served, phase, event):
    assert event == standing(given, ME, HandOver(phase=phase, served=served))


def test_each_commit_writes_the_next_epoch_and_absolution_the_same():
    orphan = known("b", session=7)
    for act in Act:
        if act not in (Act.SERVE, Act.DRAIN, Act.STOP):
            assert (3 if act is Act.ABSOLVE else 4) == outcome(act, orphan, ME).epoch


@pytest.mark.parametrize("phase", Phase)
def test_no_epoch_of_a_session_that_is_over_counts_as_served(phase):
    assert HandOver().served == HandOver(phase=phase, served=3).step(HandOverEvent.OVER)[0].served == 0


@pytest.mark.parametrize(
    ("act", "given", "when", "written"),
    [
        (Act.CLAIM, known(revision=0, epoch=0), {Absent(key=KEYS.own(1))}, ("a", 5, 1)),
        (Act.CLAIM, known(), {Unchanged(key=KEYS.own(1), revision=9)}, ("a", 5, 4)),
        (
            Act.TAKE_OVER,
            known("b", session=7),
            {Unchanged(key=KEYS.own(1), revision=9), Absent(key=KEYS.member("b"))},
            ("a", 5, 4),
        ),
        (
            Act.GIVE,
            known("a", session=5, now=5, receiver=OwnSession(id="b", session=7)),
            {Unchanged(key=KEYS.own(1), revision=9), Unchanged(key=KEYS.member("b"), revision=7)},
            ("b", 7, 4),
        ),
        (Act.GIVE, known("a", session=5, now=5), {Unchanged(key=KEYS.own(1), revision=9)}, (None, 0, 4)),
    ],
)
def test_a_commit_compares_all_that_it_rests_upon(act, given, when, written):
    compares, put = request(act, 1, given, ME, KEYS)
    assert {*when, Unchanged(key=KEYS.member("a"), revision=5)} == set(compares)
    record = decoded(OwnershipRecord, put.value)
    assert (KEYS.own(1), *written) == (put.key, record.owner, record.session, record.epoch)
