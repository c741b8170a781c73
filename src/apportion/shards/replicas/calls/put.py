"""The machine of a put: one entry to all nodes of its list, until enough of them hold it.

    sent ── enough nodes hold it ──────────────────────────────▶ PutDone
      │ ── too few can still hold it, as some hold later writes ▶ sent again, above them (at most 4 times)
      │ ── too few can still hold it, as some give no answer ───▶ CallFailed(QuorumNotReached)
      └ ── a node knows a higher table number ─────────────────▶ TableIsStale

Promises: an acknowledged put has a version above every put that was acknowledged before it began. A put that is sent
again has a new version each time, so an answer to an earlier one counts for nothing.
Refuses: to send again above a version that is more than a day ahead (`ClockAstray`); to count a node that answers
with a later write.
Source: argued and model-checked in docs/decisions/0030.
"""

from collections.abc import Callable

from apportion.errors import ClockAstray, QuorumNotReached
from apportion.shards.replicas.calls.call import (
    CallFailed,
    CallRoute,
    EntryAnswered,
    Input,
    Outcome,
    PutDone,
    SendEntry,
    TableIsStale,
    TimeIsUp,
)
from apportion.shards.replicas.entry import NodeEntry
from apportion.shards.replicas.level import are_met
from apportion.shards.replicas.nodes.api import EntryStored, EntrySuperseded, SlotSealed, StaleNumber
from apportion.shards.replicas.version import EntryVersion

MOST_SENT_AGAIN = 4

Above = Callable[[EntryVersion], EntryVersion | None]


class PutCall:
    """One put or deletion. `above` takes a version into the clock and returns a later one, None for a damaged one."""

    outcome: Outcome | None
    versions: list[EntryVersion]

    def __init__(self, entry: NodeEntry, route: CallRoute, above: Above) -> None:
        self._entry, self._route, self._above = entry, route, above
        self._stored: set[str] = set()
        self._later: dict[str, EntryVersion] = {}
        self._waiting: set[str] = set()
        self._stale: TableIsStale | None = None
        self._said = 0
        self.versions = []
        self.outcome = None

    def begin(self) -> tuple[SendEntry, ...]:
        """Return the first requests: the entry to every node of the list."""
        return self._sent(self._entry.version)

    def step(self, event: Input) -> tuple[SendEntry, ...]:
        """Take one input; return the requests to send. O(nodes)."""
        if self.outcome is not None:
            return ()
        if isinstance(event, TimeIsUp):
            self.outcome = self._not_reached()
        elif isinstance(event, EntryAnswered) and event.version == self._entry.version:
            self._count(event)
            return self._decided()
        return ()

    def unsaid(self) -> tuple[EntryVersion, ...]:
        """Return the versions that were not returned by an earlier call of this method."""
        found, self._said = tuple(self.versions[self._said :]), len(self.versions)
        return found

    def _count(self, event: EntryAnswered) -> None:
        self._waiting.discard(event.node)
        answer = event.answer
        if isinstance(answer, EntryStored):
            self._stored.add(event.node)
        elif isinstance(answer, (EntrySuperseded, SlotSealed)):
            self._later[event.node] = answer.version
        elif isinstance(answer, StaleNumber):
            self._stale = TableIsStale(event.node, answer.number)

    def _decided(self) -> tuple[SendEntry, ...]:
        """End the call, send again, or wait on."""
        writes, hoped = self._route.writes, self._stored | self._waiting
        if are_met(writes, self._stored):
            self.outcome = PutDone(self._entry.version)
            return ()
        if are_met(writes, hoped):
            return ()
        if self._stale is None and self._later and are_met(writes, hoped | self._later.keys()):
            return self._again()
        if self._stale is not None or not self._waiting:  # an error counts every answer
            self.outcome = self._stale or self._not_reached()
        return ()

    def _again(self) -> tuple[SendEntry, ...]:
        """Send the value again, above the highest version that a node has answered."""
        highest = max(self._later.values())
        version = self._above(highest)
        if version is None:
            self.outcome = CallFailed(ClockAstray.of_key(self._entry.key, f"{highest}"))
            return ()
        if len(self.versions) > MOST_SENT_AGAIN:
            self.outcome = self._not_reached()
            return ()
        return self._sent(version)

    def _sent(self, version: EntryVersion) -> tuple[SendEntry, ...]:
        old = self._entry
        self._entry = NodeEntry(key=old.key, version=version, value=old.value, expires_ms=old.expires_ms)
        self.versions.append(version)
        self._stored, self._later, self._waiting = set(), {}, set(self._route.nodes)
        return tuple(SendEntry(node, self._entry) for node in self._route.nodes)

    def _not_reached(self) -> CallFailed:
        need = next(each for each in self._route.writes if not each.is_met(self._stored))
        return CallFailed(QuorumNotReached("put", self._entry.key, acks=need.found(self._stored), needed=need.count))
