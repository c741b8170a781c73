"""Planted bugs of the coordinator: each of them breaks a promise in some seed."""

from apportion.shards.replicas.calls.call import EntryAnswered
from apportion.shards.replicas.calls.put import PutCall
from apportion.shards.replicas.hybrid_clock import HybridClock
from apportion.shards.replicas.nodes.api import EntryStored, EntrySuperseded
from apportion.shards.replicas.version import EntryVersion


def superseded_counts_as_stored(monkeypatch):
    """A put takes a node with a later write for one that holds it."""
    count = PutCall._count

    def _count(self, event):
        is_later = isinstance(event.answer, EntrySuperseded)
        count(self, EntryAnswered(event.node, event.version, EntryStored()) if is_later else event)

    monkeypatch.setattr(PutCall, "_count", _count)


def wall_clock_wins(monkeypatch):
    """The last writer by the wall clock wins, as in a store without versions of its own."""
    superseded_counts_as_stored(monkeypatch)

    def _next(self, now_ms):
        return EntryVersion(milliseconds=now_ms, writer=self._writer)

    monkeypatch.setattr(HybridClock, "next", _next)


def sends_again_under_the_same_version(monkeypatch):
    """A superseded put is sent again unchanged, and then counts as stored."""
    count = PutCall._count

    def _count(self, event):
        is_later = isinstance(event.answer, EntrySuperseded) and len(self.versions) > 1
        count(self, EntryAnswered(event.node, event.version, EntryStored()) if is_later else event)

    monkeypatch.setattr(PutCall, "_count", _count)
    again = PutCall._again

    def _again(self):
        above, self._above = self._above, lambda _: self._entry.version
        try:
            return again(self)
        finally:
            self._above = above

    monkeypatch.setattr(PutCall, "_again", _again)


def one_answer_is_a_quorum(monkeypatch):
    """W + R is not above N."""
    monkeypatch.setattr("apportion.shards.replicas.routes.needs_of", _needs_of)


def _needs_of(level, owners, datacenters, datacenter=None):
    from apportion.shards.replicas.level import NodeNeed

    return (NodeNeed(tuple(owners), 1),)


BUGS = (
    superseded_counts_as_stored,
    wall_clock_wins,
    sends_again_under_the_same_version,
    one_answer_is_a_quorum,
)
