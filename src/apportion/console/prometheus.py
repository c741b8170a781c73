"""Prometheus: the former place of `apportion.metrics`, for programs that import it from here."""

from apportion.metrics.prometheus import LOOKUPS, ROWS, GroupMetrics, TableMetrics, timed

__all__ = ["LOOKUPS", "ROWS", "GroupMetrics", "TableMetrics", "timed"]
