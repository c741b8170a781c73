"""Frozen values: what the other rooms talk about."""

from apportion.model.assignment import Assignment, PreferenceList
from apportion.model.epoch import Epoch
from apportion.model.plan import Change, Key, Move, NodeChange, Plan
from apportion.model.schedule import Copy, Drop, Lead, Schedule, Traffic, Wave
from apportion.model.table import Table
from apportion.model.throttle import Throttle
from apportion.model.token import POSITIONS, KeyRange, Slot, Token
from apportion.model.topology import Node, Topology

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
