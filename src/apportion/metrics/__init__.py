"""Metrics of groups and followed tables, for Prometheus; needs the extra `metrics`."""

from apportion.metrics.prometheus import GroupMetrics, TableMetrics, timed

__all__ = ["GroupMetrics", "TableMetrics", "timed"]
