"""Metrics of shards for Prometheus: the counts of a router, the moves of its set, and the rows of its shards.

Each scrape asks the control store, and the shards that take part in moves, for at most two seconds. Rows are counted in
the background at long intervals. If the store does not answer, a metric says so.
Refuses: labels by key, slot or move. The labels are names of sets and shards, so the number of series does not grow
with the work.
Needs the extras `metrics` and `sqlalchemy`. docs/shards/metrics.md has an example and the alert rules.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from apportion.errors import ApportionError, InvalidInput
from apportion.runtime.clock import SystemClock
from apportion.runtime.endings import uncancelled
from apportion.runtime.io_thread import io_thread
from apportion.shards.admin.pace import MovePace, is_at_rest, paced
from apportion.shards.admin.planner import from_facts
from apportion.shards.admin.status import set_status
from apportion.shards.pins.statistics import RouterStatistics
from apportion.shards.plan import SetFacts
from apportion.shards.router import ShardRouter

ROWS_EVERY = timedelta(minutes=10)
"""The time between two counts of rows. A count reads an index of each sharded table: O(rows)."""

_MOST_SECONDS = 2.0


class ShardMetrics(Collector):
    """The counts of the router of this process, and the moves and rows of its set.

    Every process shows the same moves and rows.

    `rows_every` is the time between two counts of rows, None for no count. One process per set should count them.
    """

    def __init__(self, router: ShardRouter, *, rows_every: timedelta | None = ROWS_EVERY) -> None:
        if not isinstance(router, ShardRouter):
            raise InvalidInput("router", router, "a router of shards", "Pass the router that open_shards opened.")
        if rows_every is not None and not (isinstance(rows_every, timedelta) and rows_every > timedelta(0)):
            hint = "Write timedelta(minutes=10), or None for no count."
            raise InvalidInput("rows_every", rows_every, "a timedelta above 0", hint)
        self._router, self._clock = router, SystemClock()
        self._rows_every = rows_every
        self._paces: dict[str, MovePace] = {}
        self._count: asyncio.Task[None] | None = None
        self._counted_at: float | None = None
        self._facts: SetFacts | None = None

    def describe(self) -> Iterator[Metric]:
        """Yield nothing, so that no store is asked when the metrics are registered."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the router and its set.

        Do not call it on the I/O thread. It blocks any other event loop meanwhile.
        """
        router, answers = self._router, io_thread().wait(self._read())
        name = router.name
        yield from _counts(router.statistics, name)
        yield _gauge(
            "routing_table_version", "Number of the version in use", name, float(router.version.number), label="table"
        )
        text = "1 if the control store has answered this scrape; 0 if the facts of moves are missing"
        yield _gauge("apportion_shards_store_answers", text, name, float(answers))
        if answers:
            yield from _moves(self._paces, name)
        if self._facts is not None:
            yield from _rows(self._facts, name)

    async def _read(self) -> bool:
        """Read the moves, and begin a count of rows if one is due. Return False if the control store is silent."""
        due = [asyncio.ensure_future(self._read_moves())]
        counts = [] if (count := self._counting()) is None else [count]
        await asyncio.wait([*due, *counts], timeout=_MOST_SECONDS)
        if not due[0].done():
            due[0].cancel()
            return False
        return due[0].result()

    async def _read_moves(self) -> bool:
        try:
            found = await set_status(self._router.url, self._router.name, has_progress=True)
        except ApportionError:
            return False
        self._paces = paced(self._paces, found.moves, self._clock.elapsed())
        return True

    def _counting(self) -> asyncio.Task[None] | None:
        """Return the running count of rows, None if there is none. A scrape waits for it, and does not end it."""
        if self._rows_every is None:
            return None
        now, since = self._clock.elapsed(), self._counted_at
        if self._count is None and (since is None or now - since >= self._rows_every.total_seconds()):
            self._counted_at, self._count = now, uncancelled(self._counted())
        return self._count

    async def _counted(self) -> None:
        try:
            self._facts = await from_facts(self._router.url, self._router.name, lambda facts: facts)
        except ApportionError:
            self._facts = None
        finally:
            self._count = None


def _counts(counted: RouterStatistics, name: str) -> Iterator[Metric]:
    counters = {
        "sessions": ("Sessions that this router has made", counted.sessions),
        "stale_routes": ("Sessions that got StaleRoute, because their slot had moved", counted.stale_routes),
    }
    for metric, (text, value) in counters.items():
        counter = CounterMetricFamily(f"apportion_shards_{metric}", text, labels=["set"])
        counter.add_metric([name], value)
        yield counter
    text, waits = "Time for which a transaction waited for a fenced slot", counted.fences
    histogram = HistogramMetricFamily("apportion_shards_fence_seconds", text, labels=["set"])
    pairs = [("+Inf" if bound == float("inf") else str(bound), count) for bound, count in waits.cumulative()]
    histogram.add_metric([name], pairs, waits.seconds)
    yield histogram


def _moves(paces: dict[str, MovePace], name: str) -> Iterator[Metric]:
    due = [pace for pace in paces.values() if not is_at_rest(pace.move)]
    yield _gauge("apportion_shards_moves", "Moves that are not over", name, len(paces))
    text = "Moves that a mover has to finish: not complete, and not paused"
    yield _gauge("apportion_shards_moves_due", text, name, len(due))
    yield _wal(paces, name)
    idle = [pace.idle_seconds for pace in due if pace.idle_seconds is not None]
    if idle or not due:  # otherwise no reading could tell the progress of a move
        text = "Longest time without progress of a move that is due, as scrapes see it"
        yield _gauge("apportion_shards_move_idle_seconds", text, name, max(idle, default=0.0))


def _wal(paces: dict[str, MovePace], name: str) -> Metric:
    """Return the bytes of log that each source keeps. Its moves share one log, so the largest number counts."""
    kept = Counter[str]()
    for pace in paces.values():
        if pace.move.wal_kept_bytes is not None:
            kept[pace.move.source] = max(kept[pace.move.source], pace.move.wal_kept_bytes)
    text = "Bytes of WAL that the server of a shard keeps for moves by replication from it"
    family = GaugeMetricFamily("apportion_shards_wal_kept_bytes", text, labels=["set", "shard"])
    for shard, size in sorted(kept.items()):
        family.add_metric([name, shard], float(size))
    return family


def _rows(facts: SetFacts, name: str) -> Iterator[Metric]:
    table, loads = facts.table, Counter[str]()
    for slot, rows in facts.amounts("rows").items():
        loads[table.shard(slot)] += rows
    text = "Rows of the slots that a shard owns, at the last count"
    family = GaugeMetricFamily("partition_row_count", text, labels=["set", "shard"])
    for shard in sorted(facts.topology.ids):
        family.add_metric([name, shard], loads[shard])
    yield family
    text = "Coefficient of variation of the rows per shard, each divided by its share, at the last count"
    yield _gauge("apportion_shards_skew_ratio", text, name, facts.skew("rows"))


def _gauge(metric: str, text: str, name: str, value: float, *, label: str = "set") -> Metric:
    family = GaugeMetricFamily(metric, text, labels=[label])
    family.add_metric([name], value)
    return family
