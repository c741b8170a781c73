"""Balancers: pure functions from the eligible members and the previous assignment to the next assignment.

Balancers take different input: replicas over a topology, a Helix resource, or members and their topics. A spec is
called with the arguments of its own balancer. All balancers share `owners`: the question that a group asks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from apportion.errors import UnknownOption
from apportion.errors.brief import brief
from apportion.model.assignment import Assignment
from apportion.model.topology import Topology

Owners = tuple[str | None, ...]
"""The owner of each partition, by its number; None where nobody may own it."""

Takes = Literal["topology", "resource", "subscriptions"]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """The question of a group to a balancer: one owner for each of its numbered partitions.

    `topology` holds the members that may own partitions, at least one of them with a weight above 0. `previous` is
    the assignment that was intended before; its owners may be gone. It is None at first. `name` is the name of the
    group: some balancers use it as a seed.
    """

    name: str
    partitions: int
    topology: Topology
    previous: Assignment | None = None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerSpec:
    """The description of a balancer for the catalog; a call of the spec calls the balancer's function.

    A field that is left out makes no promise.

    - `takes`: the input: replicas over a `"topology"`, a `"resource"` of Helix, or members' `"subscriptions"`.
    - `weighted`: shares are proportional to the nodes' weights. Otherwise weights count for less, or not at all. A
      node of weight 0 owns nothing in any balancer.
    - `zoned`: no two replicas share a zone while there are enough zones.
    - `even`: where weights are equal, loads of one resource differ by at most one, whichever nodes join or leave.
    - `minimal_movement`: as few partitions change their owner as evenness allows.
    """

    name: str
    assign: Callable[..., Any]
    owners: Callable[[GroupView], Owners]
    source: str
    takes: Takes
    weighted: bool = False
    zoned: bool = False
    even: bool = False
    minimal_movement: bool = False

    def __post_init__(self) -> None:
        if self.takes not in get_args(Takes):
            raise UnknownOption(f"input of balancer {self.name!r}", self.takes, get_args(Takes))

    def __call__(self, *args: object, **options: object) -> Any:  # noqa: ANN401 - each balancer returns its own type
        """Make an assignment: call the function of the balancer."""
        return self.assign(*args, **options)
