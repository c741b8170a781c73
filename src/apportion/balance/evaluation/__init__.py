"""Evaluation: balancers side by side on the same clusters and events, with measures of their results.

It follows the published evaluation of CrushED. `apportion evaluate` adds a clock, files and programs of others.
"""

from apportion.balance.evaluation.answer import BalancerRank, ranking
from apportion.balance.evaluation.best import least_deviation
from apportion.balance.evaluation.clusters import SHAPES, Cluster, production_like
from apportion.balance.evaluation.entrants import Entrant, Placed, entrant
from apportion.balance.evaluation.measures import Measures, Movement, gain, measured, movement
from apportion.balance.evaluation.scenarios import NAMES, Scenario, State, make_scenario
from apportion.balance.evaluation.summary import STATIC, Comparison, Findings, SummaryLine
from apportion.balance.evaluation.trial import BalancerTrial, Refusal, TrialResult

__all__ = [
    "NAMES",
    "SHAPES",
    "STATIC",
    "BalancerRank",
    "BalancerTrial",
    "Cluster",
    "Comparison",
    "Entrant",
    "Findings",
    "Measures",
    "Movement",
    "Placed",
    "Refusal",
    "Scenario",
    "State",
    "SummaryLine",
    "TrialResult",
    "entrant",
    "gain",
    "least_deviation",
    "make_scenario",
    "measured",
    "movement",
    "production_like",
    "ranking",
]
