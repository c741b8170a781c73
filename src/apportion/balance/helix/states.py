"""States of one partition: the state that each node is to have, by the preference list and the current states.

Listed replicas come up before others are dropped. A node beyond the list keeps its replica until the listed replicas
under way are up. At most one replica beyond the listed number is added at a time. So a partition that moves never has
fewer replicas than before. The top state goes to a node that is one step from it, if there is such a node. So no
leader waits for a copy.
Promises: Helix's states, for live nodes. A replica in ERROR stays so. No other node gets a replica in its place, but
another node can get the top state.
Refuses: cases that do not follow from lists: a resource that is switched off or taken away, WAGED's capacities, and
resolvers of abnormal states. It also leaves out one setting of Helix: with a limit of 0 in the scope PARTITION, Helix
adds no replica beyond the listed ones.
Source: `AbstractRebalancer` and `DelayedAutoRebalancer` of Apache Helix 2.0.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from apportion.balance.arguments import check_ids
from apportion.balance.helix.models import DROPPED, ERROR, OFFLINE, ModelName, StateModel, model_of
from apportion.balance.java.values import MAX_INT, string_order
from apportion.errors import InvalidInput

MORE_AT_ONCE = 1


def states(
    preference_list: Sequence[str],
    *,
    live: Iterable[str],
    disabled: Iterable[str] = (),
    current: Mapping[str, str] | None = None,
    coming: Iterable[str] = (),
    model: ModelName = "MasterSlave",
    zones: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the state that each node is to have now; a node without a state has no replica and needs none.

    `disabled` are the nodes that are switched off, for this partition or altogether: they go OFFLINE. `current` is
    the state of each live node that has a replica. A node in `coming` has no replica yet, and its first step is under
    way. `zones` decides which replica is dropped first: one in the zone with the most replicas. If several nodes are
    coming and no longer listed, the first by name stays longest; in Helix, the order of a hash table decides. O(nodes²)
    for one partition. Raises `UnknownOption`, `InvalidInput`.

    >>> states(["a", "b"], live=["a", "b", "c"])
    {'a': 'MASTER', 'b': 'SLAVE'}
    >>> states(["c", "b"], live=["a", "b", "c"], current={"a": "MASTER", "b": "SLAVE"})
    {'c': 'SLAVE', 'b': 'SLAVE', 'a': 'MASTER'}
    >>> states(["c", "b"], live=["a", "b", "c"], current={"a": "SLAVE", "b": "SLAVE", "c": "MASTER"})
    {'c': 'MASTER', 'b': 'SLAVE', 'a': 'DROPPED'}
    """
    kind, current = model_of(model), current or {}
    for what, ids in (("preference list", preference_list), ("live", live), ("disabled", disabled), ("coming", coming)):
        check_ids(what, ids)
    if len(set(preference_list)) < len(preference_list):
        raise InvalidInput("preference list", preference_list, "each node once", "Drop the repeated ones.")
    for state in current.values():
        kind.check(state)
    now = {node: current[node] for node in sorted(current, key=string_order)}
    now |= {node: OFFLINE for node in sorted(coming, key=string_order) if node not in now}
    nodes = _with_those_there(preference_list, now, kind, zones or {})
    up, off = frozenset(live), frozenset(disabled)
    found = {node: OFFLINE for node in nodes if node in off and (node in now or node in up)}
    found |= _assigned(nodes, up - off, now, kind)
    are_up = all(node in now and now[node] == found.get(node) for node in preference_list if node in nodes)
    is_any_in_error = any(now.get(node) == ERROR for node in preference_list)
    if are_up and not is_any_in_error and len(found) > len(preference_list):
        found.update(dict.fromkeys(nodes[len(preference_list) :], DROPPED))
    found.update({node: ERROR for node in nodes if now.get(node) == ERROR})
    return {node: found[node] for node in nodes if node in found}


def _with_those_there(
    listed: Sequence[str], now: Mapping[str, str], kind: StateModel, zones: Mapping[str, str]
) -> list[str]:
    """Return the nodes with a replica now or next: listed ones in order, then the others.

    Of the others, the node that goes last comes first.
    """
    room = len(listed) + MORE_AT_ONCE - len(now) if len(now) <= len(listed) else 0
    coming = [node for node in listed if node not in now][:room]
    crowds = Counter(zones.get(node) for node in now)
    leaving = [node for node in now if node not in listed]
    leaving.sort(key=lambda node: (crowds[zones.get(node)] if zones else 0, kind.states.index(now[node])))
    return [node for node in listed if node in now or node in coming] + leaving


def _assigned(nodes: Sequence[str], live: Collection[str], now: Mapping[str, str], kind: StateModel) -> dict[str, str]:
    """Give the states out by priority, to the nodes in their order.

    If the next node is more than one step from the top state, the nearest node gets that state instead.
    """
    waiting = deque(node for node in nodes if node in live)
    nearness = {node: kind.states.index(now[node]) for node in waiting if node in now}
    nearest = iter(sorted(waiting, key=lambda node: nearness.get(node, MAX_INT)))
    candidates, found = len(waiting), dict[str, str]()
    for state in kind.serving:
        wanted = 1 if state == kind.top and kind.has_leader else len(nodes)
        while waiting and wanted > 0:
            node = waiting[0]
            if node in found:
                waiting.popleft()
                continue
            is_near = state != kind.top or now.get(node, OFFLINE) in (kind.top, kind.before_top)
            if not is_near and wanted < candidates - len(found):
                node = next((each for each in nearest if each not in found), node)
            if node == waiting[0]:
                waiting.popleft()
            found[node] = ERROR if now.get(node) == ERROR else state
            wanted -= found[node] != ERROR
    return found
