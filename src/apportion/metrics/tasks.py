"""Metrics of tasks for Prometheus: the numbers of a queue in its store, and the attempts of this process.

Each scrape asks the store for the numbers, for at most two seconds. If the store does not answer, a metric says so.
Refuses: labels by task. The only label is the name of the queue, so the number of series does not grow with the work.
Needs the extra `metrics`. docs/tasks/metrics.md has an example and the alert rules.
"""

import asyncio
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from apportion.errors import InvalidInput, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.runtime.buckets import Buckets
from apportion.runtime.io_thread import io_thread
from apportion.stores.task_control import QueueStats
from apportion.work import admin
from apportion.work.lanes.lane_statistics import LaneStatistics
from apportion.work.observers.statistics import TaskStatistics
from apportion.work.queue import TaskQueue

_MOST_SECONDS = 2.0


class TaskMetrics(Collector):
    """The numbers of a queue over all workers, and the counts of the workers of this process.

    A scrape costs one reading of the store, which counts the open and the kept tasks. One process per queue should
    therefore show them.
    """

    def __init__(self, queue: TaskQueue) -> None:
        if not isinstance(queue, TaskQueue):
            raise InvalidInput("queue", queue, "a queue", 'Pass apportion.Queue(url, "mail").')
        self._queue = queue

    def describe(self) -> Iterator[Metric]:
        """Yield nothing, so that no store is asked when the metrics are registered."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the queue.

        Do not call it on the I/O thread. It blocks any other event loop meanwhile.
        """
        name = self._queue.name
        stats = self._read()
        answers = "1 if the store has answered this scrape; 0 if the numbers of the queue are missing"
        yield _gauge("store_answers", answers, name, float(stats is not None))
        if stats is not None:
            yield from _numbers(stats, name)
        yield from _counts(self._queue.statistics, name)

    def _read(self) -> QueueStats | None:
        name = self._queue.name
        try:
            found = io_thread().wait(asyncio.wait_for(admin.stats(self._queue.url), _MOST_SECONDS))
        except InvalidInput:  # no store was made yet
            return QueueStats(queue=name)
        except (StoreDenied, StoreUnavailable, StoreWentBack, TimeoutError):
            return None
        return next((each for each in found if each.queue == name), QueueStats(queue=name))


def _numbers(stats: QueueStats, name: str) -> Iterator[Metric]:
    gauges = {
        "ready": ("Tasks that wait for a worker", stats.ready),
        "delayed": ("Tasks that wait for their time", stats.delayed),
        "claimed": ("Tasks that workers hold", stats.claimed),
        "dead": ("Dead tasks, until they are redriven or purged", stats.dead),
        "cancelled": ("Cancelled tasks of the last week", stats.cancelled),
        "workers": ("Workers with a live session", stats.workers),
        "oldest_ready_seconds": ("Time since the oldest ready task became ready", stats.oldest_ready_ms / 1_000),
    }
    for metric, (text, value) in gauges.items():
        yield _gauge(metric, text, name, float(value))


def _counts(counted: TaskStatistics, name: str) -> Iterator[Metric]:
    counters = {
        "done": ("Attempts that are done", counted.done),
        "failed": ("Attempts that failed, with a retry to come", counted.failed),
        "died": ("Attempts that left their task dead", counted.dead),
        "refused": ("Attempts with an end that the store refused as too late", counted.refused),
        "retaken": ("Claims taken over from workers that ended", counted.retaken),
        "fenced": ("Lanes that the store refused to this process because they had a later owner", counted.lanes.fenced),
    }
    slots = counted.schedules
    counters |= {
        "slots_missed": ("Slots without a task because no worker ran at their time", slots.missed),
        "slots_skipped": ("Slots without a task because an earlier task of the schedule was open", slots.skipped),
        "schedules_disagree": (
            "Schedules that fired a stored slot that their rule lacks with the zone data of this host",
            slots.disagreed,
        ),
        "schedules_unable": ("Schedules that this process cannot evaluate", slots.unable),
    }
    for metric, (text, value) in counters.items():
        counter = CounterMetricFamily(f"apportion_tasks_{metric}", text, labels=["queue"])
        counter.add_metric([name], value)
        yield counter
    yield _histogram("start_latency_seconds", "Time from ready to the start of the run", name, counted.start_latency)
    yield _histogram("slot_lateness_seconds", "Time from a slot to its firing", name, slots.lateness)
    yield _histogram("run_seconds", "Time from the start of a run to its end", name, counted.runs)
    yield from _lanes(counted.lanes, name)


def _lanes(counted: LaneStatistics, name: str) -> Iterator[Metric]:
    without_owner = counted.without_owner
    if without_owner is not None:
        text = "Lanes of keys without a living owner, as a worker of this process sees them"
        yield _gauge("lanes_without_owner", text, name, float(without_owner))
    text, handovers = "Time from the loss of a lane to its next owner; its keys wait meanwhile", counted.handovers
    summary = SummaryMetricFamily("apportion_tasks_lane_handover_seconds", text, labels=["queue"])
    summary.add_metric([name], handovers.count, handovers.seconds)
    yield summary


def _gauge(metric: str, text: str, name: str, value: float) -> Metric:
    family = GaugeMetricFamily(f"apportion_tasks_{metric}", text, labels=["queue"])
    family.add_metric([name], value)
    return family


def _histogram(metric: str, text: str, name: str, durations: Buckets) -> Metric:
    family = HistogramMetricFamily(f"apportion_tasks_{metric}", text, labels=["queue"])
    pairs = [("+Inf" if bound == float("inf") else str(bound), count) for bound, count in durations.cumulative()]
    family.add_metric([name], pairs, durations.seconds)
    return family
