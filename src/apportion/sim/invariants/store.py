"""Invariants: what must hold at every transition, whatever fails; one class each, in the words of its promise.

They read facts (`facts.py`) in the order of true time, and nothing else: so the simulated world, property tests and
tests of real processes are held against the same lines. They say nothing of what keys and values mean: whoever writes
a format brings the invariants of it (`ownership.py`). Every one is known to find planted bugs by itself
(`tests/sim/zoo`); one that finds none would count as absent.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from apportion.sim.facts import (
    Answered,
    Began,
    Changed,
    Delivered,
    Fact,
    Granted,
    Renewed,
    Scanned,
    Watching,
    Wrote,
)
from apportion.sim.invariants.history import History
from apportion.stores import Committed, Event, Unknown

DRIFT_RATIO = 0.01  # by which clocks of processes may differ from the true time
REAP_SECONDS = 2.5  # and its time to live, within which a lease has ended once its time is over and nothing fails


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """What did not hold, when, and by which invariant."""

    invariant: str
    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at:.6f} s: {self.what}"


class Invariant:
    """One promise. A subclass has methods that are named after the facts they look at, and calls `broken`.

    `figure` is the worst that it has measured, where it measures anything.
    """

    figure = 0.0

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        self.history = history
        self._report = report

    def broken(self, what: str) -> None:
        """Say what does not hold."""
        self._report(type(self).__name__, what)


class RevisionsGrow(Invariant):
    """Revisions grow with every change and never come twice in one life of the store; lives are numbered upwards."""

    def began(self, fact: Began) -> None:
        """Look at the number of a life."""
        if fact.incarnation <= self.history.incarnation:
            self.broken(f"incarnation {fact.incarnation} follows {self.history.incarnation}")

    def changed(self, fact: Changed) -> None:
        """Look at the revision of a change."""
        if fact.revision <= self.history.revision:
            self.broken(f"revision {fact.revision} follows {self.history.revision}: {[key for key, _ in fact.items]}")


class ItemsCarryTheirRevision(Invariant):
    """An item has the revision of the commit that wrote it."""

    def changed(self, fact: Changed) -> None:
        """Look at what was written."""
        for key, item in fact.items:
            if item is not None and item.revision != fact.revision:
                self.broken(f"{key} was written at {fact.revision} and says {item.revision}")


class CommitsAreWhole(Invariant):
    """A change is all writes of one commit that was asked for, or the end of one lease; nothing else, nothing less."""

    def changed(self, fact: Changed) -> None:
        """Look for its cause."""
        if self.history.cause.attempt is None and self.history.cause.lease is None:
            self.broken(f"revision {fact.revision} is no whole commit: {[key for key, _ in fact.items]}")


class ComparesHold(Invariant):
    """A commit happens only if every compare held, and in the life of the store that its caller knew."""

    def changed(self, fact: Changed) -> None:
        """Look at the compares of what was done."""
        attempt = self.history.cause.attempt
        if attempt is None:
            return
        if not self.history.compares_hold(attempt.asked):
            self.broken(f"revision {fact.revision} was committed though a compare of {attempt.asked.call} did not hold")
        if attempt.asked.incarnation != fact.incarnation:
            self.broken(f"{attempt.asked.call} of life {attempt.asked.incarnation} happened in {fact.incarnation}")


class AnswersAreTrue(Invariant):
    """What was acknowledged is there once, an unknown at most once; what was refused or failed has no effect."""

    def answered(self, fact: Answered) -> None:
        """Look at what had happened when the answer came."""
        attempt = self.history.attempts[fact.call]
        if isinstance(fact.outcome, Committed):
            in_this_life = attempt.asked.incarnation == self.history.incarnation
            if in_this_life and attempt.applied != [fact.outcome.revision]:
                self.broken(f"{fact.call} was acknowledged at {fact.outcome.revision}, and done at {attempt.applied}")
        elif attempt.applied and not isinstance(fact.outcome, Unknown):
            self.broken(f"{fact.call} was answered {fact.outcome}, and done at {attempt.applied}")

    def changed(self, fact: Changed) -> None:
        """Look at what had been said of it."""
        attempt = self.history.cause.attempt
        if attempt is not None and not attempt.may_apply:
            said = f"was done at {attempt.applied} before" if attempt.applied else f"was answered {attempt.outcome}"
            self.broken(f"{attempt.asked.call} {said}, and happens at {fact.revision}")


class LiveLeasesStay(Invariant):
    """A lease that was renewed within its time to live does not end, unless its holder ended it."""

    def changed(self, fact: Changed) -> None:
        """Look at a lease that ends with its keys."""
        if self.history.cause.attempt is None and self.history.cause.lease is not None:
            self._look(self.history.cause.lease, fact.at)

    def renewed(self, fact: Renewed) -> None:
        """Look at leases that are said to have ended."""
        if fact.incarnation == self.history.incarnation:
            for lease in sorted(fact.asked - fact.alive):
                self._look(lease, fact.at)

    def _look(self, lease: int, at: float) -> None:
        tenure = self.history.leases.get(lease)
        if tenure is None or tenure.revoked or tenure.ended:
            return
        lived = at - tenure.renewed_at
        if lived < tenure.ttl_seconds * (1 - DRIFT_RATIO):
            self.broken(f"lease {lease} of {tenure.ttl_seconds} s ended {lived:.3f} s after it was renewed")


class EndedLeasesLetGo(Invariant):
    """Once nothing fails any more, a lease that is not renewed ends within its bound, and its keys with it."""

    def scanned(self, fact: Scanned) -> None:
        """Look at the leases of what is there."""
        calm = self.history.calm_since
        if calm is None or fact.stale or fact.incarnation != self.history.incarnation:
            return
        for item in fact.items:
            tenure = None if item.lease is None else self.history.leases.get(item.lease)
            if tenure is None:
                continue
            over = fact.since - max(calm, tenure.renewed_at + tenure.ttl_seconds)
            if over > tenure.ttl_seconds + REAP_SECONDS:
                self.broken(f"{item.key} of lease {item.lease} is there {over:.3f} s after its time")


class KeysGoWithTheirLease(Invariant):
    """When a lease ends all of its keys go in that revision, and none comes under it again."""

    def changed(self, fact: Changed) -> None:
        """Look at what an end left, and at leases of what is written."""
        lease = self.history.cause.lease
        gone = {key for key, _ in fact.items}
        if lease is not None and self.history.cause.attempt is None:
            left = sorted(key for key, item in self.history.items.items() if item.lease == lease and key not in gone)
            if left:
                self.broken(f"lease {lease} ended at {fact.revision} and left {left}")
        for key, item in fact.items:
            tenure = None if item is None or item.lease is None else self.history.leases.get(item.lease)
            if tenure is not None and tenure.ended:
                self.broken(f"{key} was written at {fact.revision} under a lease that had ended")


class RenewalsAreTrue(Invariant):
    """A lease that has ended is not said to live, and no id is given twice."""

    def granted(self, fact: Granted) -> None:
        """Look at the id."""
        if fact.incarnation == self.history.incarnation and fact.lease in self.history.leases:
            self.broken(f"lease {fact.lease} was granted twice")

    def renewed(self, fact: Renewed) -> None:
        """Look at what is said to live."""
        for lease in sorted(fact.alive):
            tenure = self.history.leases.get(lease)
            if fact.incarnation == self.history.incarnation and tenure is not None and tenure.ended:
                self.broken(f"lease {lease} had ended and was renewed")


class ScansAreHonest(Invariant):
    """A scan shows the state at its revision, and one that is not stale all that was acknowledged before it began."""

    def scanned(self, fact: Scanned) -> None:
        """Look at what a scan showed."""
        if fact.incarnation != self.history.incarnation:
            return
        state = self.history.states.get(fact.revision)
        if state is None:
            if fact.revision > self.history.revision:
                self.broken(f"a scan shows revision {fact.revision} of {self.history.revision}")
            return
        truth = [state[key] for key in sorted(state, key=str.encode) if key.startswith(fact.prefix)]
        if list(fact.items) != truth:
            wrong = sorted({item.key for item in {*fact.items} ^ {*truth}})
            self.broken(f"a scan of {fact.prefix!r} at {fact.revision} is wrong about {wrong}")
        known = next((revision for at, revision in reversed(self.history.acknowledged) if at < fact.since), 0)
        if not fact.stale and fact.revision < known:
            self.broken(f"a scan shows {fact.revision} though {known} was acknowledged before it began")


class WatchesMissNothing(Invariant):
    """A watch gives every change under its prefix in order, each once and whole, and of one life of the store only."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._watches: dict[int, tuple[str, list[Changed], int]] = {}

    def watching(self, fact: Watching) -> None:
        """Remember where it begins."""
        self._watches[fact.watch] = (fact.prefix, self.history.changes, fact.after)

    def delivered(self, fact: Delivered) -> None:
        """Look at what comes next."""
        prefix, changes, after = self._watches[fact.watch]
        expected = next((each for each in changes if each.revision > after and _events(each, prefix)), None)
        if expected is None:
            self.broken(f"watch {fact.watch} gave {fact.revision} after {after}, which its life of the store never had")
        elif (expected.revision, _events(expected, prefix)) != (fact.revision, fact.events):
            self.broken(f"watch {fact.watch} gave {fact.revision} after {after}; next was {expected.revision}")
        self._watches[fact.watch] = (prefix, changes, fact.revision)


def _events(change: Changed, prefix: str) -> tuple[Event, ...]:
    return tuple(
        Event(key=key, value=None if item is None else item.value, lease=None if item is None else item.lease)
        for key, item in change.items
        if key.startswith(prefix)
    )


class SinksAreFenced(Invariant):
    """Tokens of accepted writes never go back, also through a restore, and no two sessions write under one."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._last: dict[str, tuple[tuple[int, int], str]] = {}

    def wrote(self, fact: Wrote) -> None:
        """Look at a token."""
        token, (highest, holder) = (fact.incarnation, fact.epoch), self._last.get(fact.resource, ((0, 0), ""))
        if token < highest or (token == highest and fact.holder != holder):
            self.broken(f"{fact.holder} wrote {fact.resource} under {token} after {holder} under {highest}")
        self._last[fact.resource] = (token, fact.holder)


ALL: tuple[type[Invariant], ...] = (
    RevisionsGrow,
    ItemsCarryTheirRevision,
    CommitsAreWhole,
    ComparesHold,
    AnswersAreTrue,
    LiveLeasesStay,
    EndedLeasesLetGo,
    KeysGoWithTheirLease,
    RenewalsAreTrue,
    ScansAreHonest,
    WatchesMissNothing,
    SinksAreFenced,
)


class Checker:
    """Holds facts against invariants, one by one.

    >>> checker = Checker([RevisionsGrow])
    >>> checker.add(Began(at=0.0, incarnation=1, revision=4))
    >>> checker.add(Changed(at=1.0, incarnation=1, revision=4, items=(("a", None),)))
    >>> print(*checker.violations)
    RevisionsGrow at 1.000000 s: revision 4 follows 4: ['a']
    """

    _FACTS: ClassVar[tuple[type[Fact], ...]] = tuple(Fact.__subclasses__())

    def __init__(self, invariants: Iterable[type[Invariant]] | None = None) -> None:
        self.history = History()
        self.violations: list[Violation] = []
        self._at = 0.0
        self._checks: list[Invariant] = []
        self._looks: dict[type[Fact], list[Callable[[Any], None]]] = {kind: [] for kind in self._FACTS}
        self.hold(ALL if invariants is None else invariants)

    def hold(self, invariants: Iterable[type[Invariant]]) -> None:
        """Hold some more from now on. One that looks at how a life of the store begins is shown what is there."""
        history, items = self.history, tuple(self.history.items.values())
        for made in [each(history, self._report) for each in invariants]:
            self._checks.append(made)
            for kind, looks in self._looks.items():
                if (look := getattr(made, kind.__name__.lower(), None)) is not None:
                    looks.append(look)
            if history.incarnation and (began := getattr(made, "began", None)) is not None:
                began(Began(at=self._at, incarnation=history.incarnation, revision=history.revision, items=items))

    def add(self, fact: Fact) -> None:
        """Take the next fact."""
        self._at = fact.at
        self.history.look(fact)
        for look in self._looks[type(fact)]:
            look(fact)
        self.history.take(fact)

    @property
    def figures(self) -> dict[str, float]:
        """The worst that invariants have measured, by their names."""
        return {type(each).__name__: each.figure for each in self._checks if each.figure}

    def _report(self, invariant: str, what: str) -> None:
        self.violations.append(Violation(invariant=invariant, at=self._at, what=what))
