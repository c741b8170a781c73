"""Invariants: the conditions that must hold at every transition, whatever fails. Each class is one promise.

They read facts (`facts.py`) in the order of true time, and nothing else. So the simulated world, property tests and
tests of real processes are checked by the same lines. They know nothing of the meaning of keys and values: the author
of a format adds its invariants (`ownership.py`). Every invariant is known to find planted bugs by itself
(`tests/sim/zoo`). An invariant that finds no planted bug counts as missing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from apportion.sim.facts import Answered, Began, Changed, Delivered, Fact, Granted, Renewed, Scanned, Watching, Wrote
from apportion.sim.invariants.history import History
from apportion.stores import Committed, Event, Unknown

DRIFT_RATIO = 0.01  # the difference that clocks of processes may have from the true time
REAP_SECONDS = 2.5  # if nothing fails, a lease that is out of time ends within this plus its time to live


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A condition that did not hold, its time, and its invariant."""

    invariant: str
    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at:.6f} s: {self.what}"


class Invariant:
    """One promise. A subclass has methods that are named after the facts they check, and calls `broken`.

    `figure` is the worst value that it has measured, if it measures anything.
    """

    figure: float = 0.0

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        self.history = history
        self._report = report

    def broken(self, what: str) -> None:
        """Report the broken condition."""
        self._report(type(self).__name__, what)


class RevisionsGrow(Invariant):
    """Revisions grow with every change and never come twice in one life of the store; lives are numbered upwards."""

    def began(self, fact: Began) -> None:
        if fact.incarnation <= self.history.incarnation:
            self.broken(f"incarnation {fact.incarnation} follows {self.history.incarnation}")

    def changed(self, fact: Changed) -> None:
        if fact.revision <= self.history.revision:
            self.broken(f"revision {fact.revision} follows {self.history.revision}: {[key for key, _ in fact.items]}")


class ItemsCarryTheirRevision(Invariant):
    """An item has the revision of the commit that wrote it."""

    def changed(self, fact: Changed) -> None:
        for key, item in fact.items:
            if item is not None and item.revision != fact.revision:
                self.broken(f"{key} was written at {fact.revision} and says {item.revision}")


class CommitsAreWhole(Invariant):
    """A change is all writes of one requested commit, or the end of one lease; nothing else, nothing less."""

    def changed(self, fact: Changed) -> None:
        if self.history.attempt is None and self.history.ending is None:
            self.broken(f"revision {fact.revision} is no whole commit: {[key for key, _ in fact.items]}")


class ComparesHold(Invariant):
    """A commit happens only if every compare held, and only in the life of the store that its caller knew."""

    def changed(self, fact: Changed) -> None:
        attempt = self.history.attempt
        if attempt is None:
            return
        if not self.history.compares_hold(attempt.asked):
            self.broken(f"revision {fact.revision} was committed though a compare of {attempt.asked.call} did not hold")
        if attempt.asked.incarnation != fact.incarnation:
            self.broken(f"{attempt.asked.call} of life {attempt.asked.incarnation} happened in {fact.incarnation}")


class AnswersAreTrue(Invariant):
    """An acknowledged commit happened once, an unknown one at most once. A refused or failed one has no effect."""

    def answered(self, fact: Answered) -> None:
        attempt = self.history.attempts[fact.call]
        if isinstance(fact.outcome, Committed):
            in_this_life = attempt.asked.incarnation == self.history.incarnation
            if in_this_life and attempt.applied != [fact.outcome.revision]:
                self.broken(f"{fact.call} was acknowledged at {fact.outcome.revision}, and done at {attempt.applied}")
        elif attempt.applied and not isinstance(fact.outcome, Unknown):
            self.broken(f"{fact.call} was answered {fact.outcome}, and done at {attempt.applied}")

    def changed(self, fact: Changed) -> None:
        attempt = self.history.attempt
        if attempt is not None and not attempt.may_apply:
            said = f"was done at {attempt.applied} before" if attempt.applied else f"was answered {attempt.outcome}"
            self.broken(f"{attempt.asked.call} {said}, and happens at {fact.revision}")


class LiveLeasesStay(Invariant):
    """A lease that was renewed within its time to live does not end, unless its holder ended it."""

    def changed(self, fact: Changed) -> None:
        if self.history.attempt is None and self.history.ending is not None:
            self._look(self.history.ending, fact.at)

    def renewed(self, fact: Renewed) -> None:
        if fact.incarnation == self.history.incarnation:
            for lease in sorted(fact.asked - fact.alive):
                self._look(lease, fact.at)

    def _look(self, lease: int, at: float) -> None:
        tenure = self.history.tenure(lease)
        if tenure is None or tenure.revoked or tenure.ended:
            return
        lived = at - tenure.renewed_at
        if lived < tenure.ttl_seconds * (1 - DRIFT_RATIO):
            self.broken(f"lease {lease} of {tenure.ttl_seconds} s ended {lived:.3f} s after it was renewed")


class EndedLeasesLetGo(Invariant):
    """Once nothing fails any more, a lease that is not renewed ends within its bound, and its keys with it."""

    def scanned(self, fact: Scanned) -> None:
        calm = self.history.calm_since
        if calm is None or fact.stale or fact.incarnation != self.history.incarnation:
            return
        for item in fact.items:
            tenure = self.history.tenure(item.lease)
            if tenure is None:
                continue
            over = fact.since - max(calm, tenure.renewed_at + tenure.ttl_seconds)
            if over > tenure.ttl_seconds + REAP_SECONDS:
                self.broken(f"{item.key} of lease {item.lease} is there {over:.3f} s after its time")


class KeysGoWithTheirLease(Invariant):
    """When a lease ends, all of its keys go in that revision, and no key is written under it again."""

    def changed(self, fact: Changed) -> None:
        lease = self.history.ending
        gone = {key for key, _ in fact.items}
        if lease is not None and self.history.attempt is None:
            left = sorted(key for key, item in self.history.items.items() if item.lease == lease and key not in gone)
            if left:
                self.broken(f"lease {lease} ended at {fact.revision} and left {left}")
        for key, item in fact.items:
            tenure = None if item is None else self.history.tenure(item.lease)
            if tenure is not None and tenure.ended:
                self.broken(f"{key} was written at {fact.revision} under a lease that had ended")


class RenewalsAreTrue(Invariant):
    """A lease that has ended is not reported as alive, and no id is given twice."""

    def granted(self, fact: Granted) -> None:
        if fact.incarnation == self.history.incarnation and fact.lease in self.history.leases:
            self.broken(f"lease {fact.lease} was granted twice")

    def renewed(self, fact: Renewed) -> None:
        for lease in sorted(fact.alive):
            tenure = self.history.tenure(lease)
            if fact.incarnation == self.history.incarnation and tenure is not None and tenure.ended:
                self.broken(f"lease {lease} had ended and was renewed")


class ScansAreHonest(Invariant):
    """A scan shows the state at its revision. One that is not stale shows all commits acknowledged before it began."""

    def scanned(self, fact: Scanned) -> None:
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
        self._began = 0
        self._unseen: dict[int, int] = {}  # changes up to this revision came before the facts

    def began(self, fact: Began) -> None:
        self._began = fact.revision

    def watching(self, fact: Watching) -> None:
        self._watches[fact.watch] = (fact.prefix, self.history.changes, fact.after)
        self._unseen[fact.watch] = self._began

    def delivered(self, fact: Delivered) -> None:
        prefix, changes, after = self._watches[fact.watch]
        self._watches[fact.watch] = (prefix, changes, fact.revision)
        if after < fact.revision <= self._unseen[fact.watch]:
            return
        expected = next((each for each in changes if each.revision > after and _events(each, prefix)), None)
        if expected is None:
            self.broken(f"watch {fact.watch} gave {fact.revision} after {after}, which its life of the store never had")
        elif (expected.revision, _events(expected, prefix)) != (fact.revision, fact.events):
            self.broken(f"watch {fact.watch} gave {fact.revision} after {after}; next was {expected.revision}")


def _events(change: Changed, prefix: str) -> tuple[Event, ...]:
    return tuple(
        Event(key=key, value=None if item is None else item.value, lease=None if item is None else item.lease)
        for key, item in change.items
        if key.startswith(prefix)
    )


class SinksAreFenced(Invariant):
    """Tokens of accepted writes never go back, also through a restore, and no two sessions write under one token."""

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._last: dict[str, tuple[tuple[int, int], str]] = {}

    def wrote(self, fact: Wrote) -> None:
        token, (highest, holder) = (fact.incarnation, fact.epoch), self._last.get(fact.resource, ((0, 0), ""))
        if token < highest or (token == highest and fact.holder != holder):
            self.broken(f"{fact.holder} wrote {fact.resource} under {token} after {holder} under {highest}")
        self._last[fact.resource] = (token, fact.holder)


# Every invariant of this file, in its order.
ALL: tuple[type[Invariant], ...] = tuple(Invariant.__subclasses__())


class Checker:
    """Checks facts against invariants, one by one. Checkers of several stores may report to one list, `violations`.

    >>> checker = Checker([RevisionsGrow])
    >>> checker.add(Began(at=0.0, incarnation=1, revision=4))
    >>> checker.add(Changed(at=1.0, incarnation=1, revision=4, items=(("a", None),)))
    >>> print(*checker.violations)
    RevisionsGrow at 1.000000 s: revision 4 follows 4: ['a']
    """

    def __init__(
        self, invariants: Iterable[type[Invariant]] | None = None, violations: list[Violation] | None = None
    ) -> None:
        self.history: History = History()
        self.violations: list[Violation] = [] if violations is None else violations
        self._at = 0.0
        self._checks: list[Invariant] = []
        self._looks: dict[type[Fact], list[Callable[[Any], None]]] = {kind: [] for kind in Fact.__subclasses__()}
        self.hold(ALL if invariants is None else invariants)

    def hold(self, invariants: Iterable[type[Invariant]]) -> None:
        """Add some invariants from now on. One with a method `began` first gets the present items."""
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
        """The worst values that invariants have measured, by their names."""
        return {type(each).__name__: each.figure for each in self._checks if each.figure}

    def _report(self, invariant: str, what: str) -> None:
        self.violations.append(Violation(invariant=invariant, at=self._at, what=what))
