"""Metrics for Prometheus: values of a group and of a followed table. Each scrape reads the present values.

Refuses: labels by key. Labels are names of groups and tables, so the number of series does not grow with the work.
Needs the extra `metrics`. docs/groups/metrics.md has an example and the alert rules.
"""

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import TypeVar

from prometheus_client import Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from apportion.errors import InvalidInput
from apportion.groups.group import Group
from apportion.model.topology import check_name
from apportion.tables.followed import FollowedTable

Question = TypeVar("Question")
Answer = TypeVar("Answer")

_BUCKETS = (1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 1e-3, 5e-3, 5e-2)
LOOKUPS = Histogram("hash_routing_lookup_duration_seconds", "Time to find the owner of a key", buckets=_BUCKETS)
ROWS = Gauge("partition_row_count", "Rows that a partition holds, as its owner says", ["group", "partition"])


def timed(route: Callable[[Question], Answer]) -> Callable[[Question], Answer]:
    """Return a lookup that measures its own duration. The measurement costs about a microsecond per call."""

    if not callable(route):
        raise InvalidInput("route", route, "a lookup", "Write timed(ring.route).")

    def timed_route(key: Question) -> Answer:
        """Find the owner of a key, and add the duration to the metric."""
        began = perf_counter()
        try:
            return route(key)
        finally:
            LOOKUPS.observe(perf_counter() - began)

    return timed_route


class GroupMetrics(Collector):
    """A member's view of its group and its counters, read from memory at each scrape."""

    def __init__(self, group: Group) -> None:
        if not isinstance(group, Group):
            raise InvalidInput("group", group, "a group", "Pass the group that open_group opened.")
        self._group = group

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the group."""
        name, sight, counted = self._group.name, self._group.sight(), self._group.statistics
        gauges = {
            "members": ("Live members", sight.members),
            "owned_partitions": ("Partitions that this member owns", sight.owned),
            "drifting_partitions": ("Partitions without the owner that the target names", sight.drifting),
            "orphaned_partitions": ("Partitions without a living owner", sight.orphaned),
            "crash_looping_partitions": ("Partitions without an owner because their owners died", sight.crash_looping),
            "quarantined_partitions": ("Partitions in quarantine until an operator releases them", sight.quarantined),
            "target_generation": ("Generation of the target", sight.generation),
            "is_controller": ("Whether this member is the controller", sight.is_controller),
            "session_seconds_left": (
                "Time until this member must stop, if its lease is not renewed",
                self._group.seconds_left,
            ),
        }
        for metric, (text, value) in gauges.items():
            yield _one(GaugeMetricFamily(f"apportion_group_{metric}", text, labels=["group"]), name, float(value))
        counters = {
            "gained_partitions": ("Partitions that this member has gained", counted.gained),
            "lost_partitions": ("Partitions that this member has lost", counted.lost),
            "sessions": ("Sessions that this member has had", counted.sessions),
            "sessions_given_up": ("Sessions given up because work did not end or made no progress", counted.given_up),
        }
        for metric, (text, value) in counters.items():
            yield _one(CounterMetricFamily(f"apportion_group_{metric}", text, labels=["group"]), name, float(value))
        summaries = {
            "handover_seconds": ("Time from the loss of a partition to its next owner", counted.handovers),
            "orphan_seconds": ("Time from the end of a session to the next owner of its partitions", counted.orphans),
        }
        for metric, (text, durations) in summaries.items():
            family = SummaryMetricFamily(f"apportion_group_{metric}", text, labels=["group"])
            family.add_metric([name], durations.count, durations.seconds)
            yield family


class TableMetrics(Collector):
    """A follower's knowledge of its table."""

    def __init__(self, name: str, follower: FollowedTable) -> None:
        if not isinstance(follower, FollowedTable):
            raise InvalidInput("follower", follower, "a followed table", "Pass the table that follow opened.")
        self._name, self._follower = check_name("name of the table", name), follower

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics of the table."""
        gauges = {
            "routing_table_version": ("Number of the version in use", self._follower.version.number),
            "routing_table_drift_versions": ("Versions published after the one in use", self._follower.drift_versions),
            "routing_table_age_seconds": (
                "Time since the store confirmed the version as the newest",
                self._follower.age_seconds,
            ),
        }
        for metric, (text, value) in gauges.items():
            yield _one(GaugeMetricFamily(metric, text, labels=["table"]), self._name, float(value))


def _one(family: GaugeMetricFamily | CounterMetricFamily, label: str, value: float) -> Metric:
    family.add_metric([label], value)
    return family
