"""History: the sum of all facts up to now. Invariants look things up in it."""

from dataclasses import dataclass, field
from typing import Any

from apportion.sim import facts
from apportion.stores import Absent, Committed, Item, Unknown

_KEPT_STATES = 2_000
Write = tuple[str, bytes | None, int | None]


@dataclass(slots=True, kw_only=True)
class Tenure:
    """A lease as its holder knows it."""

    ttl_seconds: float
    renewed_at: float
    revoked: bool = False
    ended: bool = False


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A requested commit and its result. `perhaps_end_of` is a lease: its end would cause the same change."""

    asked: facts.Asked
    writes: frozenset[Write]
    applied: list[int] = field(default_factory=list)
    perhaps_end_of: int | None = None
    outcome: object = None
    answered: bool = False

    @property
    def may_apply(self) -> bool:
        """Whether the commit may still happen: it has not happened, and its answer does not exclude it."""
        return not self.applied and (not self.answered or isinstance(self.outcome, Unknown | Committed))


class History:
    """The state of the store, its leases, and all requested commits. Call `take` after the invariants have looked.

    The cause of the present change is `attempt`, a commit with these writes, or `ending`, a lease. A change without
    either cause is a defect. If both are set, the attempt counts, unless its answer says later that it did not happen.

    `group` is the history of the store that has the groups: this one, unless the world has another store for them.
    """

    incarnation: int
    revision: int

    def __init__(self) -> None:
        self.group: History = self
        self.incarnation = 0
        self.revision = 0
        self.items: dict[str, Item] = {}
        self.states: dict[int, dict[str, Item]] = {}
        self.changes: list[facts.Changed] = []
        self.leases: dict[int, Tenure] = {}
        self.attempts: dict[int, Attempt] = {}
        self.acknowledged: list[tuple[float, int]] = []
        self.calm_since: float | None = None
        self.shared: dict[type, Any] = {}  # the state that invariants of one subject share
        self.attempt: Attempt | None = None
        self.ending: int | None = None
        self.writers: dict[tuple[str, int], str] = {}
        self.holds: dict[int, facts.Entered] = {}
        self.tasks: facts.TasksChanged | None = None
        self.task_calls: dict[int, facts.TaskCall] = {}  # those that the store carries out now
        self.runs: dict[int, facts.RunBegan] = {}
        self.damaged: set[str] = set()  # tasks that were damaged in any life of the store
        self._by_key: dict[str, list[Attempt]] = {}
        self._inherited: set[int | None] = set()  # leases from before this life of the store that have keys in it

    def item(self, key: str) -> Item | None:
        """Return the item of a key, None for no item."""
        return self.items.get(key)

    def writer(self, key: str, revision: int, otherwise: str | None = None) -> str | None:
        """Return the process that wrote a key at a revision."""
        return self.writers.get((key, revision), otherwise)

    def tenure(self, lease: int | None) -> Tenure | None:
        """Return a lease that was granted in this life of the store."""
        return None if lease is None else self.leases.get(lease)

    def look(self, fact: facts.Fact) -> None:
        """Prepare the data that invariants need about a fact, before `take` adds it."""
        if isinstance(fact, facts.Changed):
            self.attempt, self.ending = self._cause(fact)
        elif isinstance(fact, facts.Answered) and isinstance(fact.outcome, Committed):
            self._attribute(self.attempts[fact.call], fact.outcome.revision)
        elif isinstance(fact, facts.Answered) and not isinstance(fact.outcome, Unknown):
            self._disclaim(self.attempts[fact.call])

    def take(self, fact: facts.Fact) -> None:
        """Add a fact to the history. Kinds of facts without a case below change nothing."""
        match fact:
            case facts.Began():
                self._begin(fact)
            case facts.Changed():
                self._change(fact)
            case facts.Asked():
                self._ask(fact)
            case facts.Answered() if (attempt := self.attempts.get(fact.call)) is not None:
                attempt.answered, attempt.outcome = True, fact.outcome
                if isinstance(fact.outcome, Committed) and attempt.asked.incarnation == self.incarnation:
                    highest = max(fact.outcome.revision, self.acknowledged[-1][1] if self.acknowledged else 0)
                    self.acknowledged.append((fact.at, highest))
            case facts.Granted() if fact.incarnation == self.incarnation:
                self.leases[fact.lease] = Tenure(ttl_seconds=fact.ttl_seconds, renewed_at=fact.at)
            case facts.Renewed() if fact.incarnation == self.incarnation:
                for lease in fact.alive & self.leases.keys():
                    self.leases[lease].renewed_at = max(fact.since, self.leases[lease].renewed_at)
            case facts.Revoked() if fact.incarnation == self.incarnation and fact.lease in self.leases:
                self.leases[fact.lease].revoked = True
                self.leases[fact.lease].ended |= fact.done
            case facts.Entered():
                self.holds[fact.hold] = fact
            case facts.Left():
                self.holds.pop(fact.hold, None)
            case _:
                self._take_of_the_work(fact)

    def _take_of_the_work(self, fact: facts.Fact) -> None:
        match fact:
            case facts.TasksChanged():
                self.tasks = fact
            case facts.TaskDamaged():
                self.damaged.add(fact.task)
            case facts.TaskCall():
                self.task_calls[fact.call] = fact
            case facts.TaskServed():
                self.task_calls.pop(fact.call, None)
            case facts.RunBegan():
                self.runs[fact.run] = fact
            case facts.RunEnded():
                self.runs.pop(fact.run, None)
            case facts.Died():
                self.runs = {run: began for run, began in self.runs.items() if began.process != fact.process}
            case facts.Calm():
                self.calm_since = fact.at

    def _begin(self, fact: facts.Began) -> None:
        self.incarnation, self.revision = fact.incarnation, fact.revision
        self.items = {item.key: item for item in fact.items}
        self.states = {fact.revision: self.items}
        self.changes, self.leases, self.acknowledged = [], {}, []
        self._inherited = {item.lease for item in fact.items} - {None}

    def _ask(self, fact: facts.Asked) -> None:
        writes = {(put.key, put.value, put.lease) for put in fact.puts} | {(key, None, None) for key in fact.deletes}
        attempt = Attempt(asked=fact, writes=frozenset(writes))
        self.attempts[fact.call] = attempt
        for key, _, _ in writes:
            self._by_key.setdefault(key, []).append(attempt)

    def _change(self, fact: facts.Changed) -> None:
        self.revision = fact.revision
        self.items = dict(self.items)
        for key, item in fact.items:
            if item is None:
                self.items.pop(key, None)
            else:
                self.items[key] = item
        self.states[fact.revision] = self.items
        if len(self.states) > _KEPT_STATES:
            del self.states[next(iter(self.states))]
        self.changes.append(fact)
        if self.attempt is not None:
            self.attempt.applied.append(fact.revision)
            self.attempt.perhaps_end_of = self.ending
            self.writers.update({(key, fact.revision): self.attempt.asked.process for key, _ in fact.items})
        elif self.ending in self.leases:
            self.leases[self.ending].ended = True

    def _cause(self, fact: facts.Changed) -> tuple[Attempt | None, int | None]:
        writes = frozenset(
            (key, *((None, None) if item is None else (item.value, item.lease))) for key, item in fact.items
        )
        asked = [attempt for attempt in self._by_key.get(fact.items[0][0], ()) if attempt.writes == writes]
        leases = {self.items[key].lease if key in self.items else None for key, _ in fact.items}
        is_end = len(leases) == 1 and leases != {None} and all(item is None for _, item in fact.items)
        # If attempts are equal, take one that could have happened. A caller that writes a new value each time has no
        # equal attempts.
        likely = [each for each in asked if each.asked.incarnation == fact.incarnation] or ([] if is_end else asked)
        attempt = next((each for each in likely if each.may_apply and self.compares_hold(each.asked)), None)
        if is_end and attempt is None:
            return None, leases.pop()
        return attempt or (likely[-1] if likely else None), leases.pop() if is_end else None

    def _disclaim(self, attempt: Attempt) -> None:
        """Credit the change of a failed attempt to another cause: an equal commit, or the end of a lease."""
        lease = attempt.perhaps_end_of
        if len(attempt.applied) == 1 and (lease in self.leases or lease in self._inherited):
            if lease in self.leases:
                self.leases[lease].ended = True
            attempt.applied.clear()
            return
        for other in self._by_key.get(min((key for key, _, _ in attempt.writes), default=""), ()):
            is_equal = other is not attempt and other.writes == attempt.writes
            if is_equal and len(attempt.applied) == 1 and other.may_apply:
                other.applied.append(attempt.applied.pop())

    def _attribute(self, attempt: Attempt, revision: int) -> None:
        """If two equal attempts could have made a change, credit the change to the acknowledged attempt."""
        for other in self._by_key.get(min(key for key, _, _ in attempt.writes), ()):
            is_equal = other is not attempt and other.writes == attempt.writes
            is_known = revision in attempt.applied
            if is_equal and not is_known and revision in other.applied and not isinstance(other.outcome, Committed):
                other.applied.remove(revision)
                attempt.applied.append(revision)

    def compares_hold(self, asked: facts.Asked) -> bool:
        """Return whether every compare of a commit holds now."""
        for compare in asked.when:
            item = self.items.get(compare.key)
            found = None if item is None else item.revision
            if found != (None if isinstance(compare, Absent) else compare.revision):
                return False
        return True
