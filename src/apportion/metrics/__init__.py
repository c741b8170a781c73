"""Metrics of groups, followed tables, queues of tasks and sets of shards, for Prometheus; needs the extra `metrics`."""

from importlib import import_module
from typing import TYPE_CHECKING

from apportion.metrics.prometheus import GroupMetrics, TableMetrics, timed
from apportion.metrics.tasks import TaskMetrics

if TYPE_CHECKING:  # loaded at its first use, because it needs SQLAlchemy
    from apportion.metrics.shards import ShardMetrics

__all__ = ["GroupMetrics", "ShardMetrics", "TableMetrics", "TaskMetrics", "timed"]


def __getattr__(name: str) -> object:
    if name != "ShardMetrics":
        raise AttributeError(f"module 'apportion.metrics' has no attribute {name!r}")
    return import_module("apportion.metrics.shards").ShardMetrics
