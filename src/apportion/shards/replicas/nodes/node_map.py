"""NodeMap: the map that a handle of a node serves: its name, its id, and its slots."""

from dataclasses import dataclass

from apportion.shards.replicas.slot_space import SlotSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMap:
    """A map, as its nodes know it. The id is drawn when the map is created, so two maps of one name differ."""

    name: str
    id: str
    space: SlotSpace
