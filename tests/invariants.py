"""What must always hold, as functions that raise AssertionError: shared by properties, contracts and the soak."""

from collections import Counter

from apportion import KeyRange, apply
from tests import twins


def diff_is_exact(old, new):
    """The difference of two tables is that of the dumb twin: range by range, to the position."""
    expected = twins.diff(old, new)
    assert expected == [(each.item.start, each.item.end, each.before, each.after) for each in old.diff(new)]


def plan_is_exact(change, old, new):
    """An exact plan moves what the dumb twin counts, at least its lower bound, and leads to the new table."""
    assert float(twins.moved_ratio(old, new)) == change.moved_ratio
    assert (twins.widths(old), twins.widths(new)) == (change.widths_before, change.widths_after)
    assert change.lower_bound_ratio <= change.moved_ratio
    assert all(isinstance(each.item, KeyRange) for each in change.changes)
    assert new == apply(change, old)
    assert new.epoch == apply(change, old).epoch


def nothing_strays(change):
    """Every move has a cause in the change of topology."""
    strays = [str(move) for move in change.moves if change.is_stray(move)]
    assert ([], 0.0) == (strays[:3], change.stray_ratio)


def keys_move_only_with_cause(old, new, keys):
    """No key moves unless its owner left or lost weight, or its new owner is new or gained weight."""
    was, now = old.topology, new.topology
    for key, source, target in zip(keys, old.route_many(keys), new.route_many(keys), strict=True):
        left = source not in now or now[source].weight < was[source].weight
        came = target not in was or now[target].weight > was[target].weight
        assert source == target or left or came, f"{key}: {source} -> {target} has no cause"


def slots_are_even(assignment):
    """Every load is the floor or the ceiling of its exact weighted quota."""
    topology, slots = assignment.topology, len(assignment.rows)
    for node, quota in zip(topology, twins.quotas(topology, slots), strict=True):
        assert twins.is_even(quota, assignment.loads[node.id]), f"{node.id}: {assignment.loads[node.id]} of {quota}"


def slots_moved_fewest(before, after):
    """From one assignment of slots to the next, no even one moves fewer slots, nor fewer without cause."""
    moves = [(was[0], now[0]) for was, now in _pairs(before, after) if was != now]
    weights = [{node.id: node.weight for node in each.topology} for each in (before, after)]
    strays = sum(
        weights[1].get(source, -1) >= weights[0][source] and weights[0].get(target, -1) >= weights[1][target]
        for source, target in moves
    )
    expected = twins.fewest_moves_and_strays(before.topology, after.topology, before.loads)
    assert expected == (len(moves), strays)


def _pairs(before, after):
    return zip(before.preference_lists.values(), after.preference_lists.values(), strict=True)


def lists_keep_zones_apart(topology, owners, level=None):
    """No node is listed twice, and no two share a fault domain while one with an owning node is free."""
    assert len(owners) == len(set(owners))
    eligible = {node.fault_domain(level) for node in topology if node.weight > 0}
    used = Counter(topology[node_id].fault_domain(level) for node_id in owners)
    assert max(used.values()) == 1 or eligible == set(used), f"{owners} crowd while a zone is free"


def lists_are_spread(assignment, up=None):
    """Every partition has as many replicas as was asked for, or nodes there are, on nodes that are up, zones apart."""
    rule, topology = assignment.rule, assignment.topology
    own = [node for node in topology if node.weight > 0 and (up is None or node.id in up)]
    members = Counter(node.fault_domain(rule.spread_level) for node in own)
    for partition, owners in assignment.preference_lists.items():
        used = Counter(topology[owner].fault_domain(rule.spread_level) for owner in owners)
        free = [used[zone] for zone in members if used[zone] < members[zone]]
        assert len(set(owners)) == len(owners) == min(rule.replicas, len(own)), f"{partition}: {owners}"
        assert set(owners) <= {node.id for node in own}, f"{partition}: {owners}"
        assert max(used.values()) <= min(free, default=rule.replicas) + 1, f"{partition}: {owners} crowd"
        assert rule.spread != "strict" or max(used.values()) == 1, f"{partition}: {owners} share a zone"
