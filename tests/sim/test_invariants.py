"""Each invariant says what breaks it, from facts alone, and is silent about what is right."""

import json

import pytest

from apportion.sim import Checker
from apportion.sim.facts import (
    Answered,
    Asked,
    Began,
    Calm,
    Changed,
    Delivered,
    Died,
    Failed,
    Granted,
    Lapsed,
    Renewed,
    Revoked,
    Scanned,
    Watching,
    Wrote,
)
from apportion.stores import Absent, Committed, Event, Item, Put, Refused, Unchanged, Unknown
from tests.sim.scenarios.scenario import HELD

BEGAN = Began(at=0.0, incarnation=1, revision=0)


def item(key, revision, value=b"v", lease=None):
    return Item(key=key, value=value, revision=revision, lease=lease)


def changed(revision, *items, at=1.0, incarnation=1):
    pairs = tuple((each, None) if isinstance(each, str) else (each.key, each) for each in items)
    return Changed(at=at, incarnation=incarnation, revision=revision, items=pairs)


def asked(call, *puts, when=(), deletes=(), process="a", incarnation=1):
    return Asked(
        at=0.5, call=call, process=process, incarnation=incarnation, when=tuple(when), puts=puts, deletes=tuple(deletes)
    )


def put(key, value=b"v", lease=None):
    return Put(key=key, value=value, lease=lease)


def answered(call, outcome, at=2.0):
    return Answered(at=at, call=call, outcome=outcome)


def own(owner, session, epoch):
    return json.dumps({"owner": owner, "session": session, "epoch": epoch}).encode()


def granted(lease, ttl_seconds=2.0, at=0.2):
    return Granted(at=at, incarnation=1, lease=lease, ttl_seconds=ttl_seconds)


def renewed(lease, *, at, alive=True):
    ids = frozenset({lease})
    return Renewed(at=at, since=at, incarnation=1, asked=ids, alive=ids if alive else frozenset())


def scanned(revision, *items, since=5.0, stale=False):
    return Scanned(
        at=since, since=since, process="a", prefix="", items=items, revision=revision, incarnation=1, stale=stale
    )


def watching(after=0, prefix=""):
    return Watching(at=0.1, watch=1, process="a", prefix=prefix, after=after)


def delivered(revision, *events):
    return Delivered(at=3.0, watch=1, revision=revision, events=events)


def wrote(holder, incarnation, epoch):
    return Wrote(at=1.0, resource="r", holder=holder, incarnation=incarnation, epoch=epoch)


A, B = changed(1, item("a", 1)), changed(2, item("b", 2))
LEASED = changed(1, item("a", 1, lease=7), item("b", 1, lease=7))
LEASED_ALONE = changed(1, item("a", 1, lease=7))
MEMBER = changed(1, item("member/m", 1))
OWNED = changed(2, item("own/r", 2, own("m", 1, 1)))
GIVEN = changed(3, item("own/r", 3, own("n", 9, 2)))

# By invariant: facts that hold, and facts of which the last breaks it.
CASES = {
    "RevisionsGrow": (
        [[A, B], [changed(1, item("a", 1)), changed(5, "a")], [A, Began(at=2.0, incarnation=2, revision=0)]],
        [[A, changed(1, item("b", 1))], [B, A], [A, Began(at=2.0, incarnation=1, revision=0)]],
    ),
    "ItemsCarryTheirRevision": ([[A, B]], [[changed(2, item("a", 1))]]),
    "CommitsAreWhole": (
        [
            [asked(1, put("a"), put("b")), changed(1, item("a", 1), item("b", 1))],
            [asked(1, deletes=["a"]), changed(2, "a")],
        ],
        [
            [asked(1, put("a"), put("b")), changed(1, item("a", 1))],
            [asked(1, put("a")), changed(1, item("a", 1), item("b", 1))],
            [A],
        ],
    ),
    "ComparesHold": (
        [[asked(1, put("a"), when=[Absent(key="a")]), A]],
        [
            [A, asked(1, put("a", b"2"), when=[Absent(key="a")]), changed(2, item("a", 2, b"2"))],
            [A, asked(1, put("b"), when=[Unchanged(key="a", revision=3)]), B],
            [asked(1, put("a"), incarnation=4), A],
        ],
    ),
    "AnswersAreTrue": (
        [
            [asked(1, put("a")), A, answered(1, Committed(revision=1))],
            [asked(1, put("a")), answered(1, Unknown(reason="")), A],
            [asked(1, put("a")), A, answered(1, Unknown(reason=""))],
            [asked(1, put("a")), answered(1, Refused(revision=3))],
            # Two equal deletes, of which the one that was acknowledged is the one that happened.
            [A, asked(1, deletes=["a"]), answered(1, Unknown(reason="")), asked(2, deletes=["a"]), changed(2, "a"),
             answered(2, Committed(revision=2))],
            # A delete that was refused, of a key that went with its lease while it was under way.
            [granted(7), LEASED_ALONE, asked(1, deletes=["a"]), changed(2, "a", at=2.3),
             answered(1, Refused(revision=2)), renewed(7, at=2.4, alive=False)],
            # The same of a lease that a copy brought back (seed 3286).
            [Began(at=1.0, incarnation=2, revision=1, items=(item("a", 1, lease=7),)),
             asked(1, deletes=["a"], incarnation=2), changed(2, "a", incarnation=2), answered(1, Refused(revision=2))],
        ],
        [
            [asked(1, put("a")), answered(1, Committed(revision=1))],
            [asked(1, put("a")), A, answered(1, Committed(revision=2))],
            [LEASED_ALONE, asked(1, deletes=["a"]), changed(2, "a"), answered(1, Refused(revision=2))],
            [asked(1, put("a")), A, answered(1, Refused(revision=1))],
            [asked(1, put("a")), A, answered(1, None)],
            [asked(1, put("a")), answered(1, Refused(revision=0)), A],
            [asked(1, put("a")), A, answered(1, Unknown(reason="")), changed(2, item("a", 2))],
        ],
    ),
    "LiveLeasesStay": (
        [
            [granted(7), LEASED, changed(2, "a", "b", at=2.3)],
            [granted(7), LEASED, Revoked(at=0.4, incarnation=1, lease=7), changed(2, "a", "b", at=0.5)],
            [granted(7), renewed(7, at=2.3, alive=False)],
        ],
        [
            [granted(7), LEASED, changed(2, "a", "b", at=2.1)],
            [granted(7), LEASED, renewed(7, at=2.0), changed(2, "a", "b", at=3.9)],
            [granted(7), renewed(7, at=1.0, alive=False)],
        ],
    ),
    "EndedLeasesLetGo": (
        [
            [granted(7), LEASED, Calm(at=1.0), scanned(1, *(each for _, each in LEASED.items), since=6.0)],
            [granted(7), LEASED, scanned(1, *(each for _, each in LEASED.items), since=60.0)],
        ],
        [[granted(7), LEASED, Calm(at=1.0), scanned(1, *(each for _, each in LEASED.items), since=7.0)]],
    ),
    "KeysGoWithTheirLease": (
        [[granted(7), LEASED, changed(2, "a", "b", at=9.0)]],
        [
            [granted(7), LEASED, changed(2, "a", at=9.0)],
            [granted(7), LEASED, changed(2, "a", "b", at=9.0), changed(3, item("a", 3, lease=7))],
            [granted(7), Revoked(at=1.0, incarnation=1, lease=7, done=True), changed(1, item("a", 1, lease=7))],
        ],
    ),
    "RenewalsAreTrue": (
        [[granted(7), renewed(7, at=1.0)]],
        [
            [granted(7), granted(7)],
            [granted(7), LEASED, changed(2, "a", "b", at=9.0), renewed(7, at=9.5)],
            [granted(7), LEASED_ALONE, asked(1, deletes=["a"]), changed(2, "a", at=2.3),
             answered(1, Refused(revision=2)), renewed(7, at=2.4)],
        ],
    ),
    "ScansAreHonest": (
        [
            [A, B, scanned(2, item("a", 1), item("b", 2))],
            [A, B, scanned(1, item("a", 1))],
            [asked(1, put("b")), A, B, answered(1, Committed(revision=2)), scanned(1, item("a", 1), stale=True)],
        ],
        [
            [A, B, scanned(2, item("a", 1))],
            [A, B, scanned(2, item("a", 2), item("b", 2))],
            [A, scanned(2, item("a", 1))],
            [asked(1, put("b")), A, B, answered(1, Committed(revision=2)), scanned(1, item("a", 1))],
        ],
    ),
    "WatchesMissNothing": (
        [
            [watching(), A, B, delivered(1, Event(key="a", value=b"v")), delivered(2, Event(key="b", value=b"v"))],
            [watching(prefix="b"), A, B, delivered(2, Event(key="b", value=b"v"))],
        ],
        [
            [watching(), A, B, delivered(2, Event(key="b", value=b"v"))],
            [watching(), A, delivered(1, Event(key="a", value=b"v")), delivered(1, Event(key="a", value=b"v"))],
            [watching(), A, delivered(1, Event(key="a", value=None))],
            [watching(), Began(at=2.0, incarnation=2, revision=0), A, delivered(1, Event(key="a", value=b"v"))],
        ],
    ),
    "SinksAreFenced": (
        [[wrote("m.1", 1, 1), wrote("m.1", 1, 1), wrote("n.2", 1, 2), wrote("m.3", 2, 1)]],
        [
            [wrote("m.1", 1, 2), wrote("n.1", 1, 1)],
            [wrote("m.1", 1, 2), wrote("n.1", 1, 2)],
            [wrote("m.1", 2, 1), wrote("n.1", 1, 9)],
        ],
    ),
    "NobodyFails": (
        [[Died(at=1.0, process="a")], [Lapsed(at=1.0, process="a", incarnation=1, lease=7)]],
        [[Failed(at=1.0, process="a", error="KeyError: 'mine'")]],
    ),
    "OwnersKeepTheirEpoch": (
        [[OWNED, GIVEN], [OWNED, changed(3, item("own/r", 3, own("m", 1, 1)))]],
        [
            [GIVEN, changed(4, item("own/r", 4, own("m", 9, 1)))],
            [OWNED, changed(3, item("own/r", 3, own("n", 1, 1)))],
            [OWNED, changed(3, "own/r")],
        ],
    ),
    "LiveOwnersAreAsked": (
        [
            [MEMBER, OWNED, asked(1, put("own/r", own("n", 9, 2)), process="m"), GIVEN],
            [MEMBER, OWNED, changed(3, "member/m"), changed(4, item("own/r", 4, own("n", 9, 2)))],
        ],
        [[MEMBER, OWNED, asked(1, put("own/r", own("n", 9, 2)), process="n"), GIVEN], [MEMBER, OWNED, GIVEN]],
    ),
}  # fmt: skip
HOLDS = [(name, facts) for name, (holds, _) in CASES.items() for facts in holds]
BREAKS = [(name, facts) for name, (_, breaks) in CASES.items() for facts in breaks]


def violations(name, facts):
    checker = Checker([each for each in HELD if each.__name__ == name])
    for fact in [BEGAN, *facts]:
        checker.add(fact)
    return checker.violations


@pytest.mark.parametrize(("name", "facts"), HOLDS, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_right_passes(name, facts):
    assert [] == violations(name, facts)


@pytest.mark.parametrize(("name", "facts"), BREAKS, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_wrong_is_found_at_the_last_fact(name, facts):
    assert [] == violations(name, facts[:-1])
    assert {name} == {violation.invariant for violation in violations(name, facts)}


def test_every_invariant_has_cases():
    assert [each.__name__ for each in HELD] == list(CASES)
