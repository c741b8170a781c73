"""Balance: pure functions from a topology and the previous assignment to the next one, and the order of its changes.

The balancers of other systems, the planners of ranges and the scores are loaded at their first use: most processes
need none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from apportion.balance.api import BalancerSpec, GroupView
from apportion.balance.by_size import by_size, larger_than_a_share, least_bytes
from apportion.balance.catalog import get, names
from apportion.balance.optimal import optimal
from apportion.balance.resources import Resource, optimal_resources
from apportion.balance.slots import slots
from apportion.balance.succession import succeed
from apportion.balance.verify import Verdict, verify
from apportion.balance.waves.schedule import schedule

if TYPE_CHECKING:
    from apportion.balance import helix, kafka, ranges, scores

__all__ = [
    "BalancerSpec",
    "GroupView",
    "Resource",
    "Verdict",
    "by_size",
    "get",
    "helix",
    "kafka",
    "larger_than_a_share",
    "least_bytes",
    "names",
    "optimal",
    "optimal_resources",
    "ranges",
    "schedule",
    "scores",
    "slots",
    "succeed",
    "verify",
]


def __getattr__(name: str) -> object:
    if name in ("helix", "kafka", "ranges", "scores"):
        return import_module(f"{__name__}.{name}")
    raise import_module("apportion.errors.missing_name").MissingName(__name__, name, __all__, room=__name__)
