"""Mover: brings groups of slots from one shard to another while programs write to them."""

from apportion.shards.mover.events import MoveEvent
from apportion.shards.mover.mover import Mover
from apportion.shards.mover.records import MoveEntry
from apportion.shards.mover.sites import ShardSites

__all__ = ["MoveEntry", "MoveEvent", "Mover", "ShardSites"]
