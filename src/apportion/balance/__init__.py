"""Balance: pure functions from a topology and the previous assignment to the next one, and the order of its changes."""

from apportion.balance import helix, kafka, scores
from apportion.balance.api import BalancerSpec, GroupView
from apportion.balance.catalog import get, names
from apportion.balance.optimal import optimal
from apportion.balance.resources import Resource, optimal_resources
from apportion.balance.slots import slots
from apportion.balance.succession import succeed
from apportion.balance.verify import Verdict, verify
from apportion.balance.waves.schedule import schedule

__all__ = [
    "BalancerSpec",
    "GroupView",
    "Resource",
    "Verdict",
    "get",
    "helix",
    "kafka",
    "names",
    "optimal",
    "optimal_resources",
    "schedule",
    "scores",
    "slots",
    "succeed",
    "verify",
]
