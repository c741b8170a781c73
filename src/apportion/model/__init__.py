"""Model: the frozen values that the other packages exchange.

A value is loaded at its first use: a process that only routes keys loads no assignment and no schedule.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apportion.model.assignment import Assignment, PreferenceList
    from apportion.model.epoch import Epoch
    from apportion.model.plan import Change, Key, Move, NodeChange, Plan
    from apportion.model.schedule import Copy, Drop, Lead, Schedule, Traffic, Wave
    from apportion.model.table import Table
    from apportion.model.throttle import Throttle
    from apportion.model.token import POSITIONS, KeyRange, Slot, Token
    from apportion.model.topology import Node, Topology

_HOMES = {
    "assignment": ("Assignment", "PreferenceList"),
    "epoch": ("Epoch",),
    "plan": ("Change", "Key", "Move", "NodeChange", "Plan"),
    "schedule": ("Copy", "Drop", "Lead", "Schedule", "Traffic", "Wave"),
    "table": ("Table",),
    "throttle": ("Throttle",),
    "token": ("POSITIONS", "KeyRange", "Slot", "Token"),
    "topology": ("Node", "Topology"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "POSITIONS",
    "Assignment",
    "Change",
    "Copy",
    "Drop",
    "Epoch",
    "Key",
    "KeyRange",
    "Lead",
    "Move",
    "Node",
    "NodeChange",
    "Plan",
    "PreferenceList",
    "Schedule",
    "Slot",
    "Table",
    "Throttle",
    "Token",
    "Topology",
    "Traffic",
    "Wave",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'apportion.model' has no attribute {name!r}")
    value: object = getattr(import_module(f"apportion.model.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value
