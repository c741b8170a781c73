"""Each invariant of groups names the breach, from facts alone, and is silent about right facts."""

import json

import pytest

from apportion.groups.view.records import MemberRecord, OwnershipRecord, Target, encoded, encoded_target
from apportion.sim import Checker
from apportion.sim.facts import Asked, Began, Calm, Changed, Entered, Left, Revoked
from apportion.sim.invariants import groups
from apportion.sim.invariants.orphans import ORPHAN_SECONDS, BoundedOrphan
from apportion.stores import Item, Put, Unchanged

BEGAN = Began(at=0.0, incarnation=1, revision=0)
MEMBERS = {"m": 1, "n": 2}


def key(kind, name=""):
    return f"live/g/{kind}" + (f"/{name}" if name else "")


def changed(revision, where, value, *, lease=None, at=1.0, process=None, when=(), call=None):
    """Return the request of a process, if it made one, and its outcome."""
    puts = () if value is None else (Put(key=where, value=value, lease=lease),)
    asked = Asked(
        at=at - 0.1,
        call=revision if call is None else call,
        process=process or "",
        incarnation=1,
        when=tuple(when),
        puts=puts,
        deletes=(where,) if value is None else (),
    )
    item = None if value is None else Item(key=where, value=value, revision=revision, lease=lease)
    change = Changed(at=at, incarnation=1, revision=revision, items=((where, item),))
    return [asked, change] if process else [change]


def joins(name, revision, lease, **more):
    return changed(revision, key("member", name), encoded(MemberRecord(nonce=name)), lease=lease, process=name, **more)


def goes(name, revision, **more):
    return changed(revision, key("member", name), None, **more)


def owned(revision, owner, session, epoch, *, process="m", partition=0, ended=(), **more):
    own = {"owner": owner, "session": session, "epoch": epoch, "ended": ended}
    return changed(revision, key("own", str(partition)), json.dumps(own).encode(), process=process, **more)


def targets(revision, *owners, process="m", term=9, **more):
    value = encoded_target(Target(generation=revision, digest="d", owners=owners))
    when = [Unchanged(key=key("controller"), revision=term)] if term else []
    return changed(revision, key("target"), value, process=process, when=when, **more)


def enters(hold, who, session, epoch, *, since=5.0, at=3.0, incarnation=1):
    return [
        Entered(
            at=at,
            hold=hold,
            process=who,
            resource="g/0",
            holder=f"{who} {session}",
            incarnation=incarnation,
            epoch=epoch,
            since=since,
        )
    ]


THERE = [*joins("m", 1, 1), *joins("n", 2, 2)]
OURS = [*THERE, *owned(3, "m", 1, 1)]
LEADS = [*joins("m", 1, 1), *changed(9, key("controller"), b"m 1", lease=1, process="m")]
CALM = [Calm(at=20.0)]
WANTS_TO_GO = changed(12, key("drain", "m"), b"leaves", process="m")[:1]  # the request never reached the store
LEFT = [Left(at=3.5, hold=1)]
ENDED = [Revoked(at=4.0, incarnation=1, lease=1), *goes("m", 6, at=4.0)]

BOUND = ORPHAN_SECONDS
OWN, OWNED_BEFORE = key("own", "0"), encoded(OwnershipRecord(epoch=1, ended=(7, 8)))
FORMER = Began(at=0.5, incarnation=1, revision=0, items=(Item(key=OWN, value=OWNED_BEFORE, revision=1),))
DIED = [FORMER, *THERE, *owned(3, "m", 1, 1, ended=(7, 8)), *goes("m", 9, at=4.0)]
LIVES = changed(10, key("member", "m"), encoded(MemberRecord(nonce="m", former=(1,))), lease=1, process="m", at=20.1)
# Nobody may own anything from 21.0 s on, until nothing drains n any more.
DRAINED = changed(5, key("drain", "n"), b"drained", at=20.5)
ASKED_TO_GO = [*OURS, *CALM, *DRAINED, *goes("m", 6, at=21.0), *changed(7, key("drain", "n"), None, at=40.0)]

# What holds, and what breaks at its last fact.
CASES = {
    "OneSessionAnId": ([[*THERE, *goes("m", 3), *joins("m", 4, 3)]], [[*THERE, *joins("m", 4, 3)]]),
    "TargetsHaveATerm": (
        [[*LEADS, *targets(10, "m")]],
        [
            [*LEADS, *targets(10, "m", term=None)],
            [*LEADS, *targets(10, "m", term=8)],
            [*LEADS, *targets(10, "m", process="n")],
            [*joins("m", 1, 1), *targets(10, "m")],
            [*LEADS, *targets(10, "m"), *changed(11, key("target"), None)],
        ],
    ),
    "GivenWhenQuiet": (
        [
            [*OURS, *enters(1, "m", 1, 1), *LEFT, *owned(4, "n", 2, 2, at=4.0)],
            [*OURS, *enters(1, "m", 1, 1), *ENDED, *owned(7, "n", 2, 2, at=5.0, process="n")],
            [*OURS, *enters(1, "m", 1, 1), *owned(4, "m", 1, 1, at=4.0)],
        ],
        [[*OURS, *enters(1, "m", 1, 1), *owned(4, "n", 2, 2, at=4.0)]],
    ),
    "HoldsAreOwned": (
        [[*OURS, *enters(1, "m", 1, 1)], [*OURS, *ENDED, *enters(1, "m", 1, 1, incarnation=7)]],
        [
            [*OURS, *enters(1, "n", 2, 1)],
            [*OURS, *enters(1, "m", 1, 2)],
            [*OURS, *ENDED, *enters(1, "m", 1, 1, at=5.0)],
            [*THERE, *enters(1, "m", 1, 1)],
        ],
    ),
    "NoLiveOverlap": (
        [
            [*OURS, *enters(1, "m", 1, 1), *enters(2, "m", 1, 1)],
            [*OURS, *enters(1, "m", 1, 1), *LEFT, *enters(2, "n", 2, 2)],
            [*OURS, *enters(1, "m", 1, 1), *ENDED, *enters(2, "n", 2, 2, at=5.0)],
        ],
        [
            [*OURS, *enters(1, "m", 1, 1), *enters(2, "n", 2, 2)],
            [*OURS, *enters(1, "m", 1, 1), *joins("m", 6, 3, at=4.0), *enters(2, "n", 2, 2, at=5.0)],
        ],
    ),
    "TokensAreUnique": (
        [[*enters(1, "m", 1, 1), *enters(2, "m", 1, 1), *enters(3, "n", 2, 2)]],
        [
            [*enters(1, "m", 1, 1), *enters(2, "n", 2, 1)],
            [*enters(1, "m", 1, 1), *enters(2, "m", 1, 1, since=6.0)],
        ],
    ),
    "UntouchedStays": (
        [
            [*LEADS, *targets(10, "m"), *owned(11, "m", 1, 1), *targets(12, "n"), *owned(13, "n", 2, 2)],
            [*LEADS, *targets(10, "m"), *owned(11, "m", 1, 1), *goes("m", 12), *owned(13, "n", 2, 2, process="n")],
            [*LEADS, *targets(10, "n"), *owned(11, "m", 1, 1), *owned(13, "n", 2, 2)],
            [*LEADS, *targets(10, "m"), *owned(11, "m", 1, 1, process="n"), *WANTS_TO_GO, *owned(13, None, 0, 2)],
        ],
        [
            [*LEADS, *targets(10, "m"), *owned(11, "m", 1, 1, process="n"), *owned(13, None, 0, 2)],
            [*LEADS, *targets(10, "m"), *owned(11, "m", 1, 1, process="n"), *targets(12, "m"), *owned(13, "n", 2, 2)],
            [*LEADS, *targets(10, "m"), *owned(11, "m", 1, 1, process="n"), *owned(13, "m", 1, 2)],
        ],
    ),
    "DeathsAreTrue": (
        [
            [*OURS, *goes("m", 5), *owned(6, "n", 2, 2, process="n", ended=(1,))],
            [*OURS, *goes("m", 5), *owned(6, "n", 2, 2, process="n")],
            [*OURS, *owned(6, None, 0, 2)],
            [*DIED, *owned(10, "n", 2, 2, process="n", ended=(7, 8, 1), at=5.0)],
        ],
        [
            [*OURS, *owned(6, "n", 2, 2, ended=(1,))],
            [*OURS, *goes("m", 5), *owned(6, "n", 2, 2, process="n", ended=(1, 3))],
            [*OURS, *goes("m", 5), *owned(6, "n", 2, 2, process="n", ended=(1, 1))],
            [*OURS, *goes("m", 5), *owned(6, None, 0, 2, process="n", ended=(1,))],
            [*DIED, *owned(10, "n", 2, 2, process="n", ended=(7, 8, 1), at=4.9)],
        ],
    ),
    "BoundedOrphan": (
        [
            [*OURS, *CALM, *goes("m", 5, at=21.0), *owned(6, "n", 2, 2, process="n", at=21.0 + BOUND)],
            [*OURS, *goes("m", 5, at=4.0), *CALM, *owned(6, "n", 2, 2, process="n", at=20.0 + BOUND)],
            [*DIED, *CALM, *owned(6, "n", 2, 2, process="n", at=21.0 + BOUND)],
            [*ASKED_TO_GO, *owned(6, "n", 2, 2, process="n", at=40.0 + BOUND)],
        ],
        [
            [*ASKED_TO_GO, *owned(6, "n", 2, 2, process="n", at=40.1 + BOUND)],
            [*OURS, *CALM, *goes("m", 5, at=21.0), *owned(6, "n", 2, 2, process="n", at=21.1 + BOUND)],
            [*DIED, *CALM, *owned(6, "n", 2, 2, process="n", at=21.1 + BOUND)],
            [*DIED, *CALM, *LIVES, *owned(6, "n", 2, 2, process="n", at=20.5 + BOUND)],
        ],
    ),
}
HOLDS = [(name, facts) for name, (holds, _) in CASES.items() for facts in holds]
BREAKS = [(name, facts) for name, (_, breaks) in CASES.items() for facts in breaks]


def checked(name, facts):
    checker = Checker([each for each in (*groups.INVARIANTS, BoundedOrphan) if each.__name__ == name])
    for fact in [BEGAN, *facts]:
        checker.add(fact)
    return checker


@pytest.mark.parametrize(("name", "facts"), HOLDS, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_right_passes(name, facts):
    assert [] == checked(name, facts).violations


@pytest.mark.parametrize(("name", "facts"), BREAKS, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_wrong_is_found_at_the_last_fact(name, facts):
    assert [] == checked(name, facts[:-1]).violations
    assert {name} == {violation.invariant for violation in checked(name, facts).violations}


def test_every_invariant_of_groups_has_cases():
    of_owners = {each.__name__ for each in groups.owners.INVARIANTS}
    held = (*groups.INVARIANTS, BoundedOrphan)
    assert [each.__name__ for each in held if each.__name__ not in of_owners] == list(CASES)


def test_the_longest_orphan_is_measured():
    facts = [*OURS, *goes("m", 5, at=4.0), *owned(6, "n", 2, 2, process="n", at=10.5)]
    assert {"BoundedOrphan": 6.5} == checked("BoundedOrphan", facts).figures
