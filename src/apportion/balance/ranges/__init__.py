"""Ranges: pure planners of range boundaries and owners, from samples of size and load.

`plan_split` cuts ranges that are too large or too hot, `plan_merge` joins cold neighbours, and `plan_moves` gives
ranges of hot nodes to other nodes. The caller measures, carries out the plans, and passes the time.
"""

from apportion.balance.ranges.key_reservoir import KeyReservoir
from apportion.balance.ranges.peak_windows import PeakWindows
from apportion.balance.ranges.range_limits import RangeLimits
from apportion.balance.ranges.range_load import RangeLoad
from apportion.balance.ranges.range_merge import RangeMerge, plan_merge
from apportion.balance.ranges.range_moves import plan_moves
from apportion.balance.ranges.range_split import RangeSplit, SplitPlan, Unsplittable, plan_split

__all__ = [
    "KeyReservoir",
    "PeakWindows",
    "RangeLimits",
    "RangeLoad",
    "RangeMerge",
    "RangeSplit",
    "SplitPlan",
    "Unsplittable",
    "plan_merge",
    "plan_moves",
    "plan_split",
]
