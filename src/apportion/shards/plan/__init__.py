"""Plans of a set of shards. A plan names the slots that will move. It is a value that can be saved and applied."""

from apportion.shards.plan.plan_file import decode_shard_plan, encode_shard_plan
from apportion.shards.plan.shard_plan import MEASURES, Measure, PlannedGroup, ShardPlan, check_plan, groups_to_move
from apportion.shards.plan.slot_plan import SetFacts, plan_sizes, plan_slots, plan_weights

__all__ = [
    "MEASURES",
    "Measure",
    "PlannedGroup",
    "SetFacts",
    "ShardPlan",
    "check_plan",
    "decode_shard_plan",
    "encode_shard_plan",
    "groups_to_move",
    "plan_sizes",
    "plan_slots",
    "plan_weights",
]
