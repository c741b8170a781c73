"""The machine of a get: enough nodes answer, the newest write is made safe, and then it is shown.

    reading ── enough answers, the newest is on enough nodes ──▶ GetDone
       │    ── enough answers, the newest is on too few nodes ─▶ writing back ── enough nodes hold it ──▶ GetDone
       │    ── too few nodes can still answer ─────────────────▶ CallFailed(QuorumNotReached)
       └    ── a node knows a higher table number ─────────────▶ TableIsStale

Promises: with write-back, of two gets in turn the later one shows no lower version. A deletion, an expired entry and
nothing at all are shown as nothing; the first two have versions, and are written back too.
Refuses: to show an entry that was deleted and forgotten: one at or below the clean mark of an answering node that holds
neither this write nor a later one.
Source: Attiya, Bar-Noy and Dolev, Sharing Memory Robustly in Message-Passing Systems, 1995, for the write-back.
"""

from collections.abc import Iterable

from apportion.errors import QuorumNotReached
from apportion.shards.replicas.calls.call import (
    CallFailed,
    CallRoute,
    EntryAnswered,
    GetDone,
    Input,
    NodesAreSlow,
    Outcome,
    ReadAnswered,
    ReadKey,
    Request,
    SendEntry,
    TableIsStale,
    TimeIsUp,
)
from apportion.shards.replicas.entry import NodeEntry
from apportion.shards.replicas.level import are_met
from apportion.shards.replicas.nodes.api import EntryPurged, EntryStored, EntrySuperseded, KeyState, StaleNumber
from apportion.shards.replicas.version import NOTHING


class GetCall:
    """One get. Without `writes_back`, the newest write is shown at once, and a later get may show an older one."""

    outcome: Outcome | None

    def __init__(self, key: bytes, route: CallRoute, *, writes_back: bool = True) -> None:
        self._key, self._route, self._writes_back = key, route, writes_back
        self._states: dict[str, KeyState] = {}
        self._unasked = list(route.nodes)
        self._waiting: set[str] = set()
        self._newest: NodeEntry | None = None
        self._holders: set[str] = set()
        self._is_writing = False
        self._stale: TableIsStale | None = None
        self.outcome = None

    @property
    def has_written_back(self) -> bool:
        """Whether the get has sent copies of the newest write."""
        return self._is_writing

    def begin(self) -> tuple[Request, ...]:
        """Return the first requests: reads of the nearest nodes, as many as the level needs."""
        return self._asked_enough()

    def step(self, event: Input) -> tuple[Request, ...]:
        """Take one input; return the requests to send. O(nodes)."""
        if self.outcome is not None:
            return ()
        if isinstance(event, TimeIsUp):
            self.outcome = self._not_reached()
            return ()
        if isinstance(event, NodesAreSlow):
            return () if self._is_writing else self._asked(1)
        if isinstance(event, ReadAnswered):
            return self._read(event)
        return self._written(event)

    def _read(self, event: ReadAnswered) -> tuple[Request, ...]:
        self._waiting.discard(event.node)
        if isinstance(event.answer, KeyState):
            self._states[event.node] = event.answer
        elif isinstance(event.answer, StaleNumber):
            self._stale = TableIsStale(event.node, event.answer.number)
        if self._is_writing:
            if isinstance(event.answer, KeyState) and self._holds(event.answer):
                self._holders.add(event.node)
            return self._ended_if_safe()
        if are_met(self._route.reads, self._states):
            return self._evaluated()
        return self._asked_enough()

    def _asked_enough(self) -> tuple[Request, ...]:
        """Ask the next nodes until the reads under way could be enough; end the call if they never can."""
        requests: list[Request] = []
        while not are_met(self._route.reads, self._states.keys() | self._waiting):
            if not self._unasked:
                self._end_without_enough()
                break
            requests += self._asked(1)
        return tuple(requests)

    def _asked(self, count: int) -> tuple[Request, ...]:
        nodes, self._unasked = self._unasked[:count], self._unasked[count:]
        self._waiting.update(nodes)
        return tuple(ReadKey(node, self._key) for node in nodes)

    def _evaluated(self) -> tuple[Request, ...]:
        """Find the newest write that the answers may show. Send it to the other nodes if too few hold it."""
        self._newest = newest(self._states.values())
        if self._newest is None:
            self.outcome = GetDone(None, NOTHING)
            return ()
        self._holders = {node for node, state in self._states.items() if self._holds(state)}
        if not self._writes_back or are_met(self._route.writes, self._holders):
            self.outcome = GetDone(self._newest, self._newest.version)
            return ()
        self._is_writing = True
        entry = self._newest
        self._waiting = {node for node in self._route.nodes if node not in self._holders}
        return tuple(SendEntry(node, entry, copy=True) for node in self._route.nodes if node in self._waiting)

    def _holds(self, state: KeyState) -> bool:
        """Whether a node holds the newest write, or a later one."""
        version = state.version
        return version is not None and self._newest is not None and version >= self._newest.version

    def _written(self, event: Input) -> tuple[Request, ...]:
        newest_version = None if self._newest is None else self._newest.version
        if not isinstance(event, EntryAnswered) or event.version != newest_version:
            return ()
        self._waiting.discard(event.node)
        if isinstance(event.answer, (EntryStored, EntrySuperseded)):
            self._holders.add(event.node)
        elif isinstance(event.answer, StaleNumber):
            self._stale = TableIsStale(event.node, event.answer.number)
        elif isinstance(event.answer, EntryPurged):
            # The node has forgotten this write after all nodes had held it, so the write was deleted.
            self._states[event.node] = KeyState(entry=None, clean_ms=event.answer.clean_ms)
            self._is_writing, self._waiting = False, set()
            return self._evaluated()
        return self._ended_if_safe()

    def _ended_if_safe(self) -> tuple[Request, ...]:
        writes, found = self._route.writes, self._newest
        if are_met(writes, self._holders) and found is not None:
            self.outcome = GetDone(found, found.version)
        elif not are_met(writes, self._holders | self._waiting):
            self._end_without_enough()
        return ()

    def _end_without_enough(self) -> None:
        """End the call if a node knows a later table, or if no answer is awaited: an error counts every answer."""
        if self._stale is not None or not self._waiting:
            self.outcome = self._stale or self._not_reached()

    def _not_reached(self) -> CallFailed:
        needs, answered = self._route.reads, {*self._states}
        if self._is_writing:
            needs, answered = self._route.writes, self._holders
        need = next(each for each in needs if not each.is_met(answered))
        return CallFailed(QuorumNotReached("get", self._key, acks=need.found(answered), needed=need.count))


def newest(states: Iterable[KeyState]) -> NodeEntry | None:
    """Return the newest entry of some answers, None if nothing is left of it.

    An entry at or below the clean mark of a node that holds neither this write nor a later one was deleted: that node
    has held it, and only a purge takes an entry away. O(answers).
    """
    answers = tuple(states)
    found = max(
        (each.entry for each in answers if each.entry is not None), key=lambda entry: entry.version, default=None
    )
    if found is None:
        return None
    lacking = [each.clean_ms for each in answers if each.version is None or each.version < found.version]
    return None if any(found.version.milliseconds <= clean_ms for clean_ms in lacking) else found
