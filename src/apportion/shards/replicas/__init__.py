"""Replicas: a map of small values with several copies, on stores that run already; the last writer wins, by version."""

from apportion.shards.replicas.entry import MapEntry
from apportion.shards.replicas.facade import AsyncMap, create
from apportion.shards.replicas.map import KeyExplanation
from apportion.shards.replicas.statistics import MapStatistics
from apportion.shards.replicas.version import EntryVersion

__all__ = ["AsyncMap", "EntryVersion", "KeyExplanation", "MapEntry", "MapStatistics", "create"]
