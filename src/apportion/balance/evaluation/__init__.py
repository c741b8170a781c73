"""Evaluation: balancers side by side on the same clusters and events, with measures of their results.

After the published evaluation of CrushED. `apportion evaluate` adds a clock, files and programs of others.
"""

from apportion.balance.evaluation.clusters import SHAPES, Cluster, production_like
from apportion.balance.evaluation.entrants import Entrant, Placed, entrant
from apportion.balance.evaluation.measures import Measures, Movement, gain, measured, movement
from apportion.balance.evaluation.scenarios import NAMES, Scenario, State, make_scenario

__all__ = [
    "NAMES",
    "SHAPES",
    "Cluster",
    "Entrant",
    "Measures",
    "Movement",
    "Placed",
    "Scenario",
    "State",
    "entrant",
    "gain",
    "make_scenario",
    "measured",
    "movement",
    "production_like",
]
