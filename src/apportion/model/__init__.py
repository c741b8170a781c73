"""Frozen values: what the other rooms talk about."""

from apportion.model.assignment import Assignment, PreferenceList
from apportion.model.epoch import Epoch
from apportion.model.plan import Change, Key, Move, NodeChange, Plan
from apportion.model.table import Table
from apportion.model.token import POSITIONS, KeyRange, Slot, Token
from apportion.model.topology import Node, Topology

__all__ = [
    "POSITIONS",
    "Assignment",
    "Change",
    "Epoch",
    "Key",
    "KeyRange",
    "Move",
    "Node",
    "NodeChange",
    "Plan",
    "PreferenceList",
    "Slot",
    "Table",
    "Token",
    "Topology",
]
