"""Throttling: which changes of state may begin now, by limits of the cluster, of each resource and of each node.

A change is a *recovery* when the partition lacks states that it needs and the change brings one; otherwise it is
*load*. A change needs room in the cluster, in its resource and on its node, for its kind and for any kind. Changes
under way take room first. Partitions without a leader come next, then those that lack most.
Promises: admitted changes and changes under way together exceed no limit. Nodes that are switched off are exempt, as
in Helix. No second top state is admitted while there is one.
Differs from Helix where Helix could exceed a limit, or walks a hash table: see `docs/algorithms/helix.md`.
Refuses: to call back changes under way, to hand a top state over by a relay, and Helix's limits of scope PARTITION. A
partition that is not in `lists` counts as one with an empty list; Helix derives its needs from all nodes.
Source: `MessageGenerationPhase`, `MessageSelectionStage`, `IntermediateStateCalcStage` and
`StateTransitionThrottleController` of Apache Helix 2.0.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cmp_to_key, partial
from itertools import chain
from typing import Literal, TypeVar, get_args

from apportion.balance.arguments import check_ids
from apportion.balance.helix.models import DROPPED, ERROR, OFFLINE, ModelName, StateModel, model_of
from apportion.balance.java.values import string_order
from apportion.errors import InvalidInput, UnknownOption
from apportion.errors.brief import brief
from apportion.model.numbers import check_int

Scope = Literal["cluster", "resource", "node"]
Kind = Literal["recovery", "load"]
LimitKind = Literal["recovery", "load", "any"]
T = TypeVar("T")
States = Mapping[str, Mapping[str, str]]
"""The state of each node that has a replica, by partition."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The most changes of a kind at once: in the cluster, in each resource, or on each node."""

    scope: Scope
    kind: LimitKind
    most: int

    def __post_init__(self) -> None:
        for name, value, known in (("scope", self.scope, get_args(Scope)), ("kind", self.kind, get_args(LimitKind))):
            if value not in known:
                raise UnknownOption(f"{name} of the limit", value, known)
        check_int("most of the limit", self.most, 0, hint="0 stops all changes.")


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class StateTransition:
    """One step of one replica, from a state to the next."""

    resource: str
    partition: str
    node: str
    source: str
    target: str


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The present and the target of a resource: current states, target states, lists, and the steps under way.

    `least` is the number of live replicas that a partition needs; None means all of its list. A step under way takes
    room while its node is in the step's source state. `disabled` are the nodes that are switched off for a partition,
    by partition.
    """

    resource: str
    current: States
    target: States
    lists: Mapping[str, Sequence[str]]
    model: ModelName = "MasterSlave"
    under_way: Sequence[StateTransition] = ()
    least: int | None = None
    disabled: Mapping[str, Collection[str]] = field(default_factory=dict)


def admitted(
    wanted: Iterable[Wanted],
    *,
    limits: Iterable[Limit],
    live: Iterable[str],
    disabled: Iterable[str] = (),
    most_errors: int = 1,
) -> tuple[StateTransition, ...]:
    """Return the changes that may begin now, resources in the order given.

    If more than `most_errors` partitions of a resource have a replica in ERROR, load changes begin only to a lower
    state. Recoveries begin as always. `disabled` are the nodes that are switched off altogether. A change on a node
    that is switched off, altogether or for the partition, needs no room on that node. Once under way, the change takes
    no room at all. A replica without a target is dropped. O(changes log changes). Raises `InvalidInput`,
    `UnknownOption`.

    >>> orders = Wanted(
    ...     resource="orders", current={}, lists={"0": ("a", "b"), "1": ("a", "b")},
    ...     target={"0": {"a": "MASTER", "b": "SLAVE"}, "1": {"a": "MASTER", "b": "SLAVE"}},
    ... )
    >>> for change in admitted([orders], limits=[Limit(scope="node", kind="any", most=1)], live={"a", "b"}):
    ...     print(change.partition, change.node, change.source, "->", change.target)
    0 a OFFLINE -> SLAVE
    0 b OFFLINE -> SLAVE
    """
    check_ids("live", live)
    check_int("most_errors", most_errors, 0, hint="Leave it out for Helix's 1.")
    check_ids("disabled", disabled)
    up, off = frozenset(live), frozenset(disabled)
    resources = [_Resource.of(each, up, off) for each in _listed("wanted", wanted, Wanted)]
    counts = Counter(resource.wanted.resource for resource in resources)
    for name in counts:
        if counts[name] > 1:
            raise InvalidInput("resource", name, "each once", "Put all of the resource into one Wanted.")
    room = _Room.of(limits)
    for resource in resources:
        for change in resource.taking_room():
            room.charge(change, resource.kind_of(change, resource.current.get(change.partition, {})))
    return tuple(change for resource in resources for change in resource.admitted(room, most_errors))


def _listed(what: str, given: Iterable[T], kind: type[T]) -> list[T]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidInput(what, given, f"an iterable of {kind.__name__}", "Put a single one in a list.")
    items = list(given)
    for item in items:
        if not isinstance(item, kind):
            raise InvalidInput(f"item of {what}", item, f"a {kind.__name__}", "Build it from its fields.")
    return items


@dataclass(slots=True)
class _Room:
    """The number of changes that may still begin, where that is limited."""

    limits: Mapping[tuple[str, str], int]
    used: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    @classmethod
    def of(cls, limits: Iterable[Limit]) -> "_Room":
        """Return the room that limits leave."""
        found: dict[tuple[str, str], int] = {}
        for limit in _listed("limits", limits, Limit):
            if (limit.scope, limit.kind) in found:
                raise InvalidInput("limit", f"{limit.scope}, {limit.kind}", "each scope and kind once", "Drop one.")
            found[limit.scope, limit.kind] = limit.most
        return cls(found)

    def has_room(self, change: StateTransition, kind: Kind, *, asks_node: bool) -> bool:
        """Whether a change may begin."""
        keys = (key for key in self._keys(change, kind) if asks_node or key[0] != "node")
        return all(self.used[key] < self.limits[key[0], key[2]] for key in keys)

    def charge(self, change: StateTransition, kind: Kind) -> None:
        """Take the room of a change."""
        self.used.update(self._keys(change, kind))

    def _keys(self, change: StateTransition, kind: Kind) -> list[tuple[str, str, str]]:
        places = (("cluster", ""), ("resource", change.resource), ("node", change.node))
        keys = ((scope, name, each) for scope, name in places for each in (kind, "any"))
        return [key for key in keys if (key[0], key[2]) in self.limits]


@dataclass(frozen=True, slots=True)
class _Resource:
    wanted: Wanted
    model: StateModel
    live: Collection[str]
    disabled: Collection[str]
    current: States

    @classmethod
    def of(cls, wanted: Wanted, live: Collection[str], disabled: Collection[str]) -> "_Resource":
        """Return the checked input of a resource."""
        model, under_way = model_of(wanted.model), wanted.under_way
        under_way = _listed(f"under_way of {wanted.resource!r}", under_way, StateTransition)
        for change in under_way:
            if change.resource != wanted.resource:
                hint = "List the change with its own resource."
                raise InvalidInput("resource of a change under way", change.resource, repr(wanted.resource), hint)
            model.check(change.source)
            model.check(change.target)
        for partition, listed in wanted.lists.items():
            check_ids(f"preference list of {partition!r}", listed)
        for partition, off in wanted.disabled.items():
            check_ids(f"disabled of {partition!r}", off)
        for states in (*wanted.current.values(), *wanted.target.values()):
            for state in states.values():
                model.check(state)
        for partition, states in wanted.target.items():
            if model.has_leader and list(states.values()).count(model.top) > 1:
                hint = "Take the target states from states(...)."
                raise InvalidInput("target states", partition, f"one {model.top} per partition", hint)
        # Nodes that are not live have no current state.
        current = {
            partition: {node: state for node, state in states.items() if node in live}
            for partition, states in wanted.current.items()
        }
        return cls(replace(wanted, under_way=under_way), model, live, disabled, current)

    def taking_room(self) -> Iterator[StateTransition]:
        """Yield the changes under way that start from their node's state, on nodes that are not switched off."""
        for change in self.wanted.under_way:
            now = self.current.get(change.partition, {}).get(change.node, OFFLINE)
            if change.source == now != change.target and not self._is_off(change):
                yield change

    def admitted(self, room: _Room, most_errors: int) -> Iterator[StateTransition]:
        """Yield the changes that may begin, taking their room."""
        rank = self.model.states.index
        only_down = sum(ERROR in states.values() for states in self.current.values()) > most_errors
        for partition in sorted(self.wanted.target, key=self._urgency):
            now = dict(self.current.get(partition, {}))
            for change in self._changes(partition):
                kind = self.kind_of(change, now)
                if kind == "load" and only_down and rank(change.source) >= rank(change.target):
                    continue
                if room.has_room(change, kind, asks_node=not self._is_off(change)):
                    room.charge(change, kind)
                    now[change.node] = change.target
                    yield change

    def kind_of(self, change: StateTransition, now: Mapping[str, str]) -> Kind:
        """Return "recovery" if a change brings a state that the partition lacks. Even a `least` of 0 needs a leader."""
        listed = self.wanted.lists.get(change.partition, ())
        wanted = len(listed) if self.wanted.least is None else max(self.wanted.least, self.model.has_leader)
        able = sum(node in self.live and node not in self.disabled for node in listed)
        needed = self.model.counts(min(wanted, able)).get(change.target, 0)
        return "recovery" if Counter(now.values())[change.target] < needed else "load"

    def _changes(self, partition: str) -> list[StateTransition]:
        """Return the next step of each replica, the most wanted first; no second top state."""
        current, target = self.current.get(partition, {}), self.wanted.target[partition]
        busy = {change.node: change for change in self.wanted.under_way if change.partition == partition}
        if target or busy:
            target = dict.fromkeys(current, DROPPED) | dict(target)
        steps = {
            node: self.model.step(current.get(node, OFFLINE), state)
            for node, state in target.items()
            if node in self.live and node not in busy and (node in current or state != DROPPED)
        }
        steps = {node: step for node, step in steps.items() if step != current.get(node, OFFLINE)}
        order = self._in_order(steps, self.wanted.lists.get(partition, ()))
        under_way = ((change.source, change.target) for change in busy.values())
        if self.model.has_leader and self.model.top in chain(current.values(), *under_way):
            order = [node for node in order if steps[node] != self.model.top]
        make = partial(StateTransition, resource=self.wanted.resource, partition=partition)
        return [make(node=node, source=current.get(node, OFFLINE), target=steps[node]) for node in order]

    def _in_order(self, steps: Mapping[str, str], listed: Sequence[str]) -> list[str]:
        """Order nodes by their target states, then by their places; by name where a node has no place."""
        places = {node: place for place, node in enumerate(listed)}
        ranks = {node: self.model.states.index(state) for node, state in steps.items()}

        def compared(one: str, other: str) -> int:
            """Return less than 0 where `one` comes first."""
            if ranks[one] != ranks[other]:
                return ranks[one] - ranks[other]
            if one in places and other in places:
                return places[one] - places[other]
            return -1 if string_order(one) < string_order(other) else 1

        return sorted(sorted(steps, key=string_order), key=cmp_to_key(compared))

    def _is_off(self, change: StateTransition) -> bool:
        return change.node in self.disabled or change.node in self.wanted.disabled.get(change.partition, ())

    def _urgency(self, partition: str) -> tuple[bool, int, int, bytes]:
        """Order partitions: first those without a leader, then those that lack most of their target."""
        now, target = self.current.get(partition, {}), self.wanted.target[partition]
        there = (Counter(now.values()) & Counter(target.values())).total()
        matched = sum(now.get(node) == state for node, state in target.items())
        return self.model.top in now.values(), there, matched, string_order(partition)
