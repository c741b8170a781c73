"""apportion: which node handles which key, and exactly which keys move when the nodes change.

A name is loaded at its first use, so `import apportion` costs almost nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from apportion.placement.first_assignment import makers

if TYPE_CHECKING:
    from apportion import balance, errors, groups, guards, placement, shards, sim, stores, sync, tables, work
    from apportion.errors import ApportionError
    from apportion.groups.facade import open_group
    from apportion.groups.leader import leader
    from apportion.model import Assignment, Epoch, KeyRange, Move, Node, Plan, Table, Throttle, Topology
    from apportion.model.codec import decode, encode
    from apportion.placement import Jump, Modulo, Rendezvous, Ring, Slots, apply, handover, hashers, plan
    from apportion.placement.by_node import group_keys, group_places
    from apportion.placement.frozen import Frozen
    from apportion.shards.facade import open_shards
    from apportion.shards.replicas.facade import open_map
    from apportion.stores.facade import open_store
    from apportion.tables.facade import follow, publish
    from apportion.work.cron.calendar import cron_slots
    from apportion.work.current import current_task
    from apportion.work.facade import Queue
    from apportion.work.lanes.lane_member import LaneMember
    from apportion.work.retry_budget import GiveUp, Snooze

__version__ = "0.1.0"

_HOMES = {
    "apportion.groups.facade": ("open_group",),
    "apportion.groups.leader": ("leader",),
    "apportion.shards.facade": ("open_shards",),
    "apportion.shards.replicas.facade": ("open_map",),
    "apportion.tables.facade": ("follow", "publish"),
    "apportion.errors": ("ApportionError",),
    "apportion.model": ("Assignment", "Epoch", "KeyRange", "Move", "Node", "Plan", "Table", "Throttle", "Topology"),
    "apportion.model.codec": ("decode", "encode"),
    "apportion.placement": (
        "Jump", "Modulo", "Rendezvous", "Ring", "Slots", "apply", "handover", "hashers", "plan",
    ),
    "apportion.placement.frozen": ("Frozen",),
    "apportion.placement.by_node": ("group_keys", "group_places"),
    "apportion.stores.facade": ("open_store",),
    "apportion.work.retry_budget": ("GiveUp", "Snooze"),
    "apportion.work.cron.calendar": ("cron_slots",),
    "apportion.work.facade": ("Queue",),
    "apportion.work.lanes.lane_member": ("LaneMember",),
    "apportion.work.current": ("current_task",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_FORMER_ROOMS = {"cluster": "groups"}
_ROOMS = (
    "balance",
    "errors",
    "groups",
    "guards",
    "model",
    "placement",
    "shards",
    "sim",
    "stores",
    "sync",
    "tables",
    "work",
)

__all__ = [
    "ApportionError",
    "Assignment",
    "Epoch",
    "Frozen",
    "GiveUp",
    "Jump",
    "KeyRange",
    "LaneMember",
    "Modulo",
    "Move",
    "Node",
    "Plan",
    "Queue",
    "Rendezvous",
    "Ring",
    "Slots",
    "Snooze",
    "Table",
    "Throttle",
    "Topology",
    "apply",
    "balance",
    "cron_slots",
    "current_task",
    "decode",
    "encode",
    "errors",
    "follow",
    "group_keys",
    "group_places",
    "groups",
    "guards",
    "handover",
    "hashers",
    "leader",
    "open_group",
    "open_map",
    "open_shards",
    "open_store",
    "placement",
    "plan",
    "publish",
    "shards",
    "sim",
    "stores",
    "sync",
    "tables",
    "work",
]


def __getattr__(name: str) -> object:
    name = _FORMER_ROOMS.get(name, name)
    if name in _ROOMS:
        return import_module(f"apportion.{name}")
    if name not in _HOME_OF:
        raise import_module("apportion.errors.missing_name").MissingName(
            "apportion", name, __all__, room="apportion.placement"
        )
    if _HOME_OF[name].startswith("apportion.work"):
        import_module("apportion.sync")  # registers the sync forms of queues and running tasks
    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _even_slots(topology: "Topology", count: int | None) -> "Assignment":
    assignment: Assignment = import_module("apportion.balance").slots(topology, count=count)
    return assignment


makers.append(_even_slots)
