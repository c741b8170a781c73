"""Several resources on one cluster: each is balanced by `optimal`; their sum is evened out where that costs no move.

Within a resource every load is a floor or a ceiling. The choice of the nodes that get the ceilings evens out all
resources together.

Promises: each assignment keeps every promise of `optimal` on its own; the order of the given resources does not
matter.
Refuses: to move a replica for the sake of another resource. The sums of the `loads` show the unevenness that remains.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apportion.balance.arguments import Partitions
from apportion.balance.optimal import place
from apportion.balance.request import OptimalRequest, Sizes
from apportion.balance.solver.quotas import quotas
from apportion.balance.solver.repair import Elsewhere, demand_on
from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.model.assignment import Assignment, Rule, Spread
from apportion.model.topology import Topology, check_name

SWEEPS = 2


@brief
@dataclass(frozen=True, slots=True)
class Resource:
    """One resource to place: the fields are the arguments of `optimal` of the same names."""

    partitions: Partitions
    replicas: int
    sizes: Sizes | None = None


def optimal_resources(
    resources: Mapping[str, Resource],
    topology: Topology,
    *,
    previous: Mapping[str, Assignment] | None = None,
    live: Iterable[str] | None = None,
    spread_level: int | None = None,
    spread: Spread = "strict",
) -> dict[str, Assignment]:
    """Return the assignment of every resource, by name.

    `previous` holds the previous assignments by name; a new resource has none. The cost is twice that of `optimal`
    for each resource. Each replica that is placed elsewhere to even out all resources adds O(size of a resource).
    Raises as `optimal` does.

    >>> two = {"orders": Resource(4, 1), "users": Resource(5, 1)}
    >>> placed = optimal_resources(two, Topology(["a", "b", "c"]))
    >>> placed["orders"].loads, placed["users"].loads
    ({'a': 2, 'b': 1, 'c': 1}, {'a': 1, 'b': 2, 'c': 2})
    """
    if not isinstance(resources, Mapping) or not all(isinstance(each, Resource) for each in resources.values()):
        hint = 'Write {"orders": Resource(8, 3)}.'
        raise InvalidInput("resources", resources, "a mapping of names to Resource", hint)
    if previous is not None and not isinstance(previous, Mapping):
        raise InvalidInput("previous", previous, "a mapping of names to Assignment", "Pass an earlier result.")
    for name in resources:
        check_name("resource", name)
    before = dict(previous or {})
    unknown = next((name for name in before if name not in resources), None)
    if unknown is not None:
        raise InvalidInput("previous", unknown, "a resource that is asked for", "Leave out resources that are gone.")
    # Read `live` once, since every resource needs it; an unreadable value is refused with the first resource.
    up = tuple(live) if isinstance(live, Iterable) and not isinstance(live, (str, bytes)) else live
    asked = {
        name: (
            OptimalRequest.checked(each.partitions, topology, before.get(name), up, each.sizes),
            Rule(replicas=each.replicas, spread_level=spread_level, spread=spread),
        )
        for name, each in sorted(resources.items())
    }
    placed: dict[str, Assignment] = {}
    excess: dict[str, Elsewhere] = {}
    for _ in range(SWEEPS):
        for name, (request, rule) in asked.items():
            others = [each for other, each in excess.items() if other != name]
            placed[name] = place(request, rule, _sum(others, nodes=len(topology)))
            excess[name] = _excess(placed[name], request, rule)
    return placed


def _excess(assignment: Assignment, request: OptimalRequest, rule: Rule) -> Elsewhere:
    """Return the replicas and leaders of each node beyond the whole part of its share."""
    demand = demand_on(request.topology, request.up, partitions=request.count, rule=rule)
    shares, denominator = quotas(demand)
    held = zip(assignment.loads.values(), shares, strict=True)
    led = zip(assignment.leader_loads.values(), shares, strict=True)
    return Elsewhere(
        held=tuple(load - share // denominator for load, share in held),
        led=tuple(load - share // (denominator * demand.replicas) for load, share in led),
    )


def _sum(parts: Iterable[Elsewhere], *, nodes: int) -> Elsewhere:
    held, led = [0] * nodes, [0] * nodes
    for part in parts:
        held = [left + right for left, right in zip(held, part.held, strict=True)]
        led = [left + right for left, right in zip(led, part.led, strict=True)]
    return Elsewhere(held=tuple(held), led=tuple(led))
