"""The suites that certify a shard and a channel, run by pytest against a rig of a kind of database."""

from apportion.sim.conformance.shards.case import ShardCase
from apportion.sim.conformance.shards.rig import ShardPair, ShardRig
from apportion.sim.conformance.shards.suite import check_shards, shard_cases

__all__ = ["ShardCase", "ShardPair", "ShardRig", "check_shards", "shard_cases"]
