"""Delayed rebalance: a node that is down for a short while keeps its lists, as long as enough other nodes serve.

One strategy makes two sets of lists: on the live nodes, and on all nodes that count as active, including nodes that
are down. Helix never asks the strategy for more replicas than there are active nodes. A partition keeps its active
list while that list has enough live nodes; otherwise the list is filled up.
Promises: a partition gets at least `least` live nodes, if its list on the live nodes has at least `least` nodes. Times
are seconds of any one clock. Helix's times are milliseconds since 1970; for Helix, a time of 0 or less means unknown.
Refuses: to read a clock, or to ask a strategy.
Source: `DelayedRebalanceUtil` and `DelayedAutoRebalancer` of Apache Helix 2.0.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from math import inf

from apportion.balance.arguments import check_ids
from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.model.assignment import PreferenceList
from apportion.model.numbers import check_int
from apportion.model.throttle import check_seconds


@brief
@dataclass(frozen=True, slots=True)
class Delay:
    """The number of seconds for which a node that is down counts as active, except for `exempt` nodes.

    `ended_at` is the time of a request to rebalance at once: nodes that went down before it are inactive.

    >>> delay = Delay(60.0)
    >>> sorted(delay.active(live=["a"], down_since={"b": 100.0, "c": 30.0}, now=120.0))
    ['a', 'b']
    >>> delay.next_at({"b": 100.0, "c": 30.0}, now=120.0)
    160.0
    """

    seconds: float
    _: KW_ONLY
    exempt: Collection[str] = frozenset()
    ended_at: float | None = None

    def __post_init__(self) -> None:
        check_seconds("seconds of the delay", self.seconds)
        if self.seconds < 0:
            raise InvalidInput("seconds of the delay", self.seconds, "0 or more", "0 is no delay.")
        check_ids("exempt of the delay", self.exempt)
        object.__setattr__(self, "exempt", frozenset(self.exempt))
        if self.ended_at is not None:
            check_seconds("ended_at of the delay", self.ended_at)

    def active(self, *, live: Iterable[str], down_since: Mapping[str, float], now: float) -> frozenset[str]:
        """Return the nodes that are live or count as live.

        `down_since` has the time at which each node went down or was disabled.

        Times may be missing where they are unknown. For a node that is both down and disabled, pass the earlier time.
        Leave disabled nodes out of `live`.
        """
        check_seconds("now", now)
        check_ids("live", live)
        waited_for = (node for node, since in down_since.items() if self._ends(node, since) > now)
        return frozenset(live).union(waited_for)

    def next_at(self, down_since: Mapping[str, float], now: float) -> float | None:
        """Return the time at which the next awaited node becomes inactive, None if there is none."""
        check_seconds("now", now)
        ends = (self._ends(node, since) for node, since in down_since.items())
        return min((end for end in ends if end > now), default=None)

    def _ends(self, node: str, since: float) -> float:
        check_seconds(f"time since which {node!r} is down", since)
        is_ended = self.ended_at is not None and since < self.ended_at
        is_waited_for = self.seconds > 0 and node not in self.exempt and not is_ended
        return since + self.seconds if is_waited_for else -inf


def delayed(
    on_live: Mapping[str, PreferenceList],
    on_active: Mapping[str, PreferenceList],
    *,
    live: Iterable[str],
    replicas: int,
    least: int,
) -> dict[str, PreferenceList]:
    """Return the list of each partition: the active one while `least` of its nodes are live.

    Otherwise the list has the live nodes of the active one, filled up to `least`.

    With `least` at `replicas` or more, no node is waited for. O(size). Raises `InvalidInput`, also for partitions
    that only one of the two sets has.

    >>> delayed({"0": ("a", "c")}, {"0": ("a", "b")}, live={"a", "c"}, replicas=2, least=1)
    {'0': ('a', 'b')}
    >>> delayed({"0": ("c", "d")}, {"0": ("a", "b")}, live={"c", "d"}, replicas=2, least=1)
    {'0': ('c',)}
    """
    for name, value in (("replicas", replicas), ("least", least)):
        check_int(name, value, 0, hint="Pass a number of replicas.")
    if on_live.keys() != on_active.keys():
        odd = min(map(str, on_live.keys() ^ on_active.keys()))
        raise InvalidInput(
            "partition", odd, "a partition with a list in both", "Make both sets of lists with one strategy."
        )
    check_ids("live", live)
    for name, listed in (*on_live.items(), *on_active.items()):
        check_ids(f"preference list of {name!r}", listed)
    if least >= replicas:
        return dict(on_live)
    up = frozenset(live)
    return {name: _kept(on_active[name], listed, up, least) for name, listed in on_live.items()}


def _kept(active: Sequence[str], listed: Sequence[str], live: Collection[str], least: int) -> PreferenceList:
    serving = [node for node in active if node in live]
    if len(serving) >= least:
        return tuple(active)
    others = [node for node in listed if node not in active]
    return tuple(serving + others[: least - len(serving)])
