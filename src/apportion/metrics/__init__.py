"""Metrics of groups, followed tables and queues of tasks, for Prometheus; needs the extra `metrics`."""

from apportion.metrics.prometheus import GroupMetrics, TableMetrics, timed
from apportion.metrics.tasks import TaskMetrics

__all__ = ["GroupMetrics", "TableMetrics", "TaskMetrics", "timed"]
