"""What a balancer is: a pure function from who may own what, and who did, to who does; and how it presents itself.

Balancers differ in what they are asked: replicas over a topology, a Helix resource, members and their topics. So a spec
is called with the balancer's own arguments; what all have in common is `owners`, the question that a group asks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from apportion.errors import UnknownOption
from apportion.model.assignment import Assignment
from apportion.model.topology import Topology

Owners = tuple[str | None, ...]
"""The owner of each partition, by its number; None where nobody may own it."""

Takes = Literal["topology", "resource", "subscriptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """What a group asks a balancer: one owner for each of its partitions, which have numbers.

    `topology` holds who may own, at least one node with a weight above 0; `previous` says who was to own what, among
    them or gone, and is None at first. `name` is the group's: some balancers are seeded by it.
    """

    name: str
    partitions: int
    topology: Topology
    previous: Assignment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerSpec:
    """How a balancer presents itself; calling a spec assigns, as calling its function would.

    - `takes`: what it is asked: replicas over a `"topology"`, a `"resource"` of Helix, or members' `"subscriptions"`.
    - `weighted`: shares are proportional to the nodes' weights; otherwise they count for less, or not at all. A node of
      weight 0 owns nothing anywhere.
    - `zoned`: no two replicas in a zone while there are zones enough.
    - `even`: loads of one resource differ by one at most, whoever comes and goes, where weights are equal.
    - `minimal_movement`: as few partitions change their owner as evenness allows.
    """

    name: str
    assign: Callable[..., Any]
    owners: Callable[[GroupView], Owners]
    source: str
    takes: Takes
    weighted: bool
    zoned: bool
    even: bool
    minimal_movement: bool

    def __post_init__(self) -> None:
        if self.takes not in get_args(Takes):
            raise UnknownOption(f"what balancer {self.name!r} takes", self.takes, get_args(Takes))

    def __call__(self, *args: object, **options: object) -> Any:  # noqa: ANN401 - what it returns is its own
        """Assign."""
        return self.assign(*args, **options)
