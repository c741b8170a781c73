"""The checker of a map's history: four promises of levels that intersect, in one pass over the calls sorted by time.

1. A get that begins after an acknowledged put returned shows that put's version or a later one.
2. Of two gets, one after the other, the second shows no lower version.
3. Of two acknowledged puts, one after the other, the second has the higher version.
4. A shown version was sent by exactly one put, before the get ended, with exactly that value.

Promises: O(calls · log calls), for the sort alone; no search. A put without an end owes nothing.
Refuses: to judge calls that overlap; they may have either order. A get that shows nothing has the lowest version.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from apportion.shards.replicas.version import NOTHING, EntryVersion
from apportion.sim.replicas.history import GetSpan, MapHistory, PutSpan

_BEGIN, _END = 0, 1  # at one time, a begin comes before an end: such calls overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenPromise:
    """A promise that a history breaks: its number, the key, the time, and the two versions that show it."""

    promise: int
    key: bytes
    at: float
    found: EntryVersion
    owed: EntryVersion

    def __str__(self) -> str:
        return f"promise {self.promise}, key {self.key!r}, at {self.at:.3f} s: {self.found} after {self.owed}"


def broken_promises(history: MapHistory) -> list[BrokenPromise]:
    """Return every broken promise of a history, sorted by key and time."""
    broken = [*_of_versions(history)]
    of_key: dict[bytes, list[PutSpan | GetSpan]] = defaultdict(list)
    every: list[PutSpan | GetSpan] = [*history.puts, *history.gets]
    for span in every:
        of_key[span.key].append(span)
    for spans in of_key.values():
        broken += _of_order(spans)
    return sorted(broken, key=lambda each: (each.key, each.at, each.promise))


def _of_order(spans: Sequence[PutSpan | GetSpan]) -> Iterator[BrokenPromise]:
    """Yield the breaks of promises 1 to 3 on one key: keep the highest version that is owed, and compare."""
    points = [(span.begin, _BEGIN, place) for place, span in enumerate(spans) if span.end is not None]
    points += [(span.end, _END, place) for place, span in enumerate(spans) if span.end is not None]
    written = shown = NOTHING
    owed: dict[int, tuple[EntryVersion, EntryVersion]] = {}
    for at, kind, place in sorted(points):
        span = spans[place]
        if kind == _BEGIN:
            owed[place] = written, shown
            continue
        before, seen = owed.pop(place)
        if isinstance(span, PutSpan):
            found = span.acknowledged or NOTHING
            if found <= before:
                yield BrokenPromise(promise=3, key=span.key, at=at, found=found, owed=before)
            written = max(written, found)
            continue
        if span.shown < before:
            yield BrokenPromise(promise=1, key=span.key, at=at, found=span.shown, owed=before)
        if span.shown < seen:
            yield BrokenPromise(promise=2, key=span.key, at=at, found=span.shown, owed=seen)
        shown = max(shown, span.shown)


def _of_versions(history: MapHistory) -> Iterator[BrokenPromise]:
    """Yield the breaks of promise 4."""
    sent: dict[tuple[bytes, EntryVersion], PutSpan] = {}
    for put in history.puts:
        for version in put.versions:
            if (put.key, version) in sent:
                yield BrokenPromise(promise=4, key=put.key, at=put.begin, found=version, owed=version)
            sent[put.key, version] = put
    for get in history.gets:
        maker = sent.get((get.key, get.shown))
        if maker is None:
            is_honest = get.shown == NOTHING and get.value is None
        else:
            is_honest = maker.value == get.value and maker.begin <= get.end
        if not is_honest:
            yield BrokenPromise(promise=4, key=get.key, at=get.end, found=get.shown, owed=NOTHING)
