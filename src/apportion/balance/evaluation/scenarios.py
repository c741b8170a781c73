"""Scenarios: events on a cluster.

A scenario lists the states that the cluster goes through, and the pairs of states between which moves count.

A node that is *disabled*, or in a zone that is *lost*, is down and stays in the topology; a *removed* node leaves it.
`rolling-upgrade` takes nodes down one after the other. It counts the moves from one such outage to the next.
`outage-and-return` and `remove-and-return` count moves between the first state and the last. These states are equal:
replicas that moved between them have drifted.

Promises: a seed always chooses the same nodes. Source: the published evaluation of CrushED.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count

from apportion.balance.evaluation.draws import Draws
from apportion.errors import CannotPlace, UnknownOption
from apportion.errors.brief import brief
from apportion.model.topology import Node, Topology

ROLLED = 4
"""The nodes that a rolling upgrade takes down. More nodes would take more time and give the same figures."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The current nodes, and those of them that are down."""

    topology: Topology
    down: frozenset[str] = frozenset()

    @property
    def live(self) -> tuple[str, ...]:
        """The ids of nodes that are up, sorted."""
        return tuple(node_id for node_id in self.topology.ids if node_id not in self.down)

    @property
    def weights(self) -> dict[str, int]:
        """The weight of each node that may hold something, in millionths."""
        return {node.id: node.millionths for node in self.topology if node.weight and node.id not in self.down}


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The states in their order; `steps` are the pairs, by place, between which moves are counted.

    Evenness is measured in the last state.
    """

    name: str
    states: tuple[State, ...]
    steps: tuple[tuple[int, int], ...]

    @classmethod
    def change(cls, name: str, before: State, after: State) -> "Scenario":
        """Return the scenario of one change."""
        if not after.weights:
            raise CannotPlace(f"scenario {name} leaves no node that may hold partitions.", "Keep at least one node up.")
        return cls(name=name, states=(before, after), steps=((0, 1),))


def make_scenario(name: str, topology: Topology, *, seed: int) -> Scenario:
    """Return a scenario on these nodes; raise `CannotPlace` if they are too few, `UnknownOption` for other names.

    >>> print(make_scenario("disable-1%", Topology(["a", "b", "c"]), seed=1).states[1].down)
    frozenset({'a'})
    """
    make = _MAKERS.get(name) if isinstance(name, str) else None
    if make is None:
        raise UnknownOption("scenario", name, NAMES)
    return make(name, topology, Draws(seed, name))


def _static(name: str, topology: Topology, _: Draws) -> Scenario:
    return Scenario(name=name, states=(State(topology=topology),), steps=())


def _disable(percent: int, name: str, topology: Topology, draws: Draws) -> Scenario:
    down = frozenset(_some(name, topology, _part(topology, percent), draws))
    return Scenario.change(name, State(topology=topology), State(topology=topology, down=down))


def _add(percent: int, name: str, topology: Topology, _: Draws) -> Scenario:
    """Add nodes of the most usual weight, each to the zone that has the fewest."""
    sizes = Counter(node.zone for node in topology)
    usual = min(Counter(node.weight for node in topology if node.weight).items(), key=lambda each: (-each[1], each[0]))
    free = (name for name in map("added-{:03}".format, count()) if name not in topology)
    added = []
    for _place in range(_part(topology, percent)):
        zone = min(sizes, key=lambda each: (sizes[each], each))
        sizes[zone] += 1
        added.append(Node(next(free), zone=zone, weight=usual[0]))
    return Scenario.change(name, State(topology=topology), State(topology=topology.add(*added)))


def _roll(name: str, topology: Topology, draws: Draws) -> Scenario:
    nodes = _some(name, topology, max(2, min(ROLLED, len(_holding(topology)) - 1)), draws)
    states = [
        State(topology=topology),
        *(State(topology=topology, down=frozenset((node_id,))) for node_id in nodes),
    ]
    steps = tuple((place, place + 1) for place in range(1, len(nodes)))
    return Scenario(name=name, states=tuple(states), steps=steps)


def _reweigh(name: str, topology: Topology, draws: Draws) -> Scenario:
    """Double the weight of one node in twenty, among the nodes with a weight."""
    after, holding = topology, _holding(topology)
    for node_id in draws.some_of(holding, min(_part(topology, 5), len(holding))):
        after = after.reweight(node_id, topology[node_id].weight * 2)
    return Scenario.change(name, State(topology=topology), State(topology=after))


def _lose_zone(name: str, topology: Topology, draws: Draws) -> Scenario:
    zones = sorted({node.zone for node in topology if node.zone and node.weight})
    if len(zones) < 2:
        raise CannotPlace(
            f"{name} needs two zones, so that one remains.", "Give the nodes zones, or leave the scenario out."
        )
    lost = draws.one_of(zones)
    down = frozenset(node.id for node in topology if node.zone == lost)
    return Scenario.change(name, State(topology=topology), State(topology=topology, down=down))


def _fail_and_return(name: str, topology: Topology, draws: Draws) -> Scenario:
    start = State(topology=topology)
    failed = State(topology=topology, down=frozenset(_some(name, topology, 1, draws)))
    return Scenario(name=name, states=(start, failed, start), steps=((0, 2),))


def _remove_and_return(name: str, topology: Topology, draws: Draws) -> Scenario:
    start, (removed,) = State(topology=topology), _some(name, topology, 1, draws)
    states = (start, State(topology=topology.without(removed)), start)
    return Scenario(name=name, states=states, steps=((0, 2),))


def _part(topology: Topology, percent: int) -> int:
    """Return this percentage of the nodes, rounded to the nearest number, at least one."""
    return max(1, (len(topology) * percent + 50) // 100)


def _some(name: str, topology: Topology, number: int, draws: Draws) -> list[str]:
    """Return some nodes that hold something, and leave at least one other such node."""
    holding = _holding(topology)
    if len(holding) <= number:
        raise CannotPlace(
            f"{name} takes {number} of {len(holding)} nodes with a weight above 0, but one must remain.",
            "Leave the scenario out, or add nodes.",
        )
    return draws.some_of(holding, number)


def _holding(topology: Topology) -> list[str]:
    return [node.id for node in topology if node.weight]


_MAKERS: dict[str, Callable[[str, Topology, Draws], Scenario]] = {
    "static": _static,
    **{f"disable-{percent}%": partial(_disable, percent) for percent in (1, 2, 5, 10)},
    **{f"add-{percent}%": partial(_add, percent) for percent in (1, 5, 10, 20)},
    "rolling-upgrade": _roll,
    "weight-change": _reweigh,
    "zone-loss": _lose_zone,
    "outage-and-return": _fail_and_return,
    "remove-and-return": _remove_and_return,
}

NAMES = tuple(_MAKERS)
"""Every scenario, in the order of the published evaluation."""
