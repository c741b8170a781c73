"""OpenStack Swift's ring builder as an entrant, if its package is installed: one ring per resource.

A node is a device of a zone. A node that is down has weight 0, as an operator would set it. The limit on moves per
hour is lifted, so that one rebalance makes all its moves. The first replica counts as the leader, and Swift does not
even out leaders. The number of partitions in Swift's own rings is a power of two; here it is the number asked for.
"""

import copy
from importlib import import_module
from typing import Any

from apportion.balance.evaluation import Cluster, Entrant, Placed, State
from apportion.balance.evaluation.entrants import laid_out
from apportion.console.evaluate.ceph import Numbers
from apportion.errors import CannotPlace

NAME = "swift"
SEED = 1
WEIGHT = 100.0


def absent() -> str:
    """Return the reason why the entrant cannot take part; an empty text if it can.

    It imports the package, so that no measured time includes the import.
    """
    try:
        import_module("swift.common.ring")
    except ImportError as error:
        return f"the package swift is not installed ({error})"
    return ""


class _Rings:
    """The builder of each resource. Each node and each zone has one number, the same in all builders."""

    def __init__(self) -> None:
        self.builders: dict[str, Any] = {}
        self.numbers = Numbers()


def _place(cluster: Cluster, state: State, before: Placed | None) -> Placed:
    rings = copy.deepcopy(before.memory) if before is not None else _Rings()
    assert isinstance(rings, _Rings)  # noqa: S101 - put there by this function itself
    rings.numbers = rings.numbers.with_those_of(state)
    lists = {}
    for name, resource in cluster.resources.items():
        if name not in rings.builders:
            rings.builders[name] = _builder(cluster.count(name), resource.replicas)
        builder = rings.builders[name]
        _set_devices(builder, state, rings)
        _rebalance(builder)
        lists[name] = builder._replica2part2dev
    names = {number: node_id for node_id, number in rings.numbers.nodes.items()}
    resources = {}
    for name, columns in lists.items():
        owners = (tuple(dict.fromkeys(names[number] for number in row)) for row in zip(*columns, strict=True))
        resources[name] = laid_out(cluster, state, name, dict(zip(cluster.partitions(name), owners, strict=True)))
    return Placed(resources=resources, memory=rings)


def _builder(partitions: int, replicas: int) -> Any:  # noqa: ANN401 - a class of a package that may be absent
    from swift.common.ring import RingBuilder  # noqa: PLC0415

    builder = RingBuilder(partitions.bit_length(), replicas, 1)
    builder.parts = partitions
    return builder


def _rebalance(builder: Any) -> None:  # noqa: ANN401
    """Make all moves of a rebalance; if Swift refuses, raise `CannotPlace` with its message."""
    from swift.common.exceptions import RingBuilderError  # noqa: PLC0415

    builder.pretend_min_part_hours_passed()
    try:
        builder.rebalance(seed=SEED)
    except RingBuilderError as error:
        raise CannotPlace(f"{NAME} refuses the cluster: {error}.", "Leave it out.") from error


def _set_devices(builder: Any, state: State, rings: _Rings) -> None:  # noqa: ANN401
    weights = state.weights
    known = {device["id"]: device for device in builder.devs if device is not None}
    for node_id, number in rings.numbers.nodes.items():
        weight = weights.get(node_id, 0) * WEIGHT / 1_000_000
        if node_id not in state.topology:
            if number in known:
                builder.remove_dev(number)
        elif number in known:
            if known[number]["weight"] != weight:
                builder.set_dev_weight(number, weight)
        else:
            zone = rings.numbers.zones[state.topology[node_id].fault_domain()]
            address = {"ip": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", "port": 6200, "device": "d"}
            builder.add_dev({"id": number, "region": 0, "zone": zone, "weight": weight, **address})


ENTRANT = Entrant(NAME, _place)
