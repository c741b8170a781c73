"""Comparison: placements side by side on the same nodes and keys, the order of their rows, and the answer.

`apportion compare` adds a clock, memory, the catalog and pages.
"""

from apportion.balance.comparison.answer import ranked
from apportion.balance.comparison.comparison import KeyComparison, lacking_cell
from apportion.balance.comparison.measures import KeyEvenness, KeyMovement, evenness, fair_bound, movement
from apportion.balance.comparison.trial import REPLICAS, KeyTrial, PlacementRow

__all__ = [
    "REPLICAS",
    "KeyComparison",
    "KeyEvenness",
    "KeyMovement",
    "KeyTrial",
    "PlacementRow",
    "evenness",
    "fair_bound",
    "lacking_cell",
    "movement",
    "ranked",
]
