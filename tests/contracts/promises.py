"""What each field of a `PlacementSpec` promises: one check a field, which raises AssertionError when it is broken.

`test_placements.py` holds every entry of the catalog to them, `test_planted.py` shows that each check can fail.
"""

import sys
from array import array
from collections import Counter
from itertools import pairwise
from math import log2
from pathlib import Path

from apportion import Assignment, Node, Topology, balance, placement, plan
from apportion.errors import BadWeight, CannotPlace, InvalidInput, NotEnoughNodes
from tests import invariants

DOCS = Path(__file__).parents[2] / "docs" / "algorithms"
KEYS = [f"tenant-{number}" for number in range(3000)]
NODES = Topology(Node(name, zone=(name,)) for name in ("a", "b", "c", "d", "e"))
FEW, MANY = 8, 512


def start(spec, topology):
    """Return the placement of a spec on a topology, with an even assignment where it takes one."""
    return spec(balance.slots(topology) if spec.takes == "assignment" else topology)


def follow(spec, old, topology):
    """Return the placement that comes after another when the topology changes."""
    if spec.takes == "assignment":
        return spec(balance.slots(topology, previous=old.assignment))
    return old.on(topology)


def name_is_the_catalogs(spec):
    """The catalog knows the spec by its name."""
    assert spec is placement.get(spec.name)
    assert spec.name in placement.names()


def build_makes_a_placement(spec):
    """What is built on a topology answers as the protocol says, every way of asking alike."""
    built = start(spec, NODES)
    routed = [built.route(key) for key in KEYS]
    assert NODES == built.topology
    assert set(NODES.ids) == set(routed)
    assert routed == built.route_many(KEYS) == built.route_many(iter(KEYS))
    indexes = built.route_indexes(KEYS)
    assert (array, 2) == (type(indexes), indexes.itemsize)
    assert routed == [NODES.ids[index] for index in indexes]
    assert routed[:200] == [built.preference(key, 1)[0] for key in KEYS[:200]]
    assert routed[:200] == [built.explain(key).owner for key in KEYS[:200]]
    assert {spec.name} == {built.explain(key).placement for key in KEYS[:5]}


def source_has_a_page(spec, docs=DOCS):
    """The algorithm has a page in the docs, and the page names where the idea comes from."""
    page = docs / f"{spec.name}.md"
    assert page.is_file(), f"{page} is missing"
    assert spec.source in page.read_text(), f"{page} does not mention {spec.source!r}"


def minimal_disruption_holds(spec):
    """Where promised: no key moves without a cause when nodes come, go, drain or change weight; but some do move."""
    if not spec.minimal_disruption:
        return
    old = start(spec, NODES)
    for verb, topology in _changes(spec, old):
        new = follow(spec, old, topology)
        invariants.keys_move_only_with_cause(old, new, KEYS)
        change = plan(old, new, None if spec.tabular else KEYS)
        invariants.nothing_strays(change)
        assert 0 < change.moved_ratio < 0.6, f"{verb}: {change.moved_ratio} moved"


def _changes(spec, old):
    last = getattr(old, "order", NODES.ids)[-1]
    yield "add", NODES.add("f")
    yield "without", NODES.without("c" if spec.removes == "any" else last)
    yield "drain", NODES.drain("b" if spec.removes == "any" else last)
    if spec.weighted:
        yield "heavier", NODES.reweight("a", 2.5)
        yield "lighter", NODES.reweight("d", 0.4)


def weighted_shares_follow_weights(spec):
    """Where promised, shares are in proportion to weight; elsewhere unequal weights are refused. None owns at 0."""
    uneven = Topology([Node("a", weight=0.5), "b", Node("c", weight=3), Node("d", weight=0)])
    if not spec.weighted:
        _refuses(BadWeight, lambda: start(spec, uneven))
        return
    owned = Counter(start(spec, uneven).route_many(KEYS))
    for node, share in (("a", 0.5 / 4.5), ("b", 1 / 4.5), ("c", 3 / 4.5), ("d", 0)):
        assert abs(owned[node] / len(KEYS) - share) <= 0.3 * share, f"{node} owns {owned[node]} of {len(KEYS)} keys"


def ranked_lists_have_any_length(spec):
    """Where promised, preference lists go on to the last node: distinct, zones apart, each the beginning of the next.

    Elsewhere a second node is refused, or is what an assignment holds.
    """
    built = start(spec, NODES)
    if not spec.ranked:
        _refuses(NotEnoughNodes, lambda: built.preference("k", 2))
        return
    for key in KEYS[:100]:
        lists = [built.preference(key, count) for count in range(1, len(NODES) + 1)]
        assert [1, 2, 3, 4, 5] == [len(owners) for owners in lists]
        assert all(longer[:-1] == shorter for shorter, longer in pairwise(lists)), f"{key}: {lists}"
        for owners in lists:
            invariants.lists_keep_zones_apart(NODES, owners)
    _refuses(NotEnoughNodes, lambda: built.preference("k", len(NODES) + 1))


def tabular_tables_hold_every_answer(spec):
    """Where promised, `table()` answers for every key, at the key's position; elsewhere there is none."""
    built = start(spec, NODES)
    table = built.table()
    if not spec.tabular:
        assert table is None, f"{spec.name} has a table but does not say so"
        return
    assert table is not None, f"{spec.name} has no table"
    for key in KEYS[:500]:
        position = built.explain(key).hash
        assert built.route(key) == table.owners(position)[0]
        assert table.range_at(position) == built.explain(key).range
    if spec.ranked:
        _rows_are_preference_lists(built)


def _rows_are_preference_lists(built):
    table = built.table(3)
    for key in KEYS[:200]:
        assert built.preference(key, 3) == table.owners(built.explain(key).hash)


def removes_as_promised(spec):
    """Any node may leave, or only the last in order and all others are refused, as promised."""
    old = start(spec, NODES)
    last = getattr(old, "order", NODES.ids)[-1]
    for node_id in NODES.ids:
        rest = NODES.without(node_id)
        if spec.removes == "any" or node_id == last:
            assert set(rest.ids) == set(follow(spec, old, rest).route_many(KEYS))
        else:
            _refuses(CannotPlace, lambda rest=rest: follow(spec, old, rest))


def takes_what_it_says(spec):
    """What `build` takes first is what the spec says, and the other is refused."""
    assignment, topology = balance.slots(NODES, count=64), NODES
    if spec.takes == "assignment":
        assert topology == spec(assignment).topology
        _refuses(InvalidInput, lambda: spec(topology))
    else:
        assert spec(topology).route_many(KEYS) == spec(list(NODES)).route_many(KEYS)
        _refuses(InvalidInput, lambda: spec(assignment))


def lookup_grows_as_promised(spec):
    """With 64 times the nodes a lookup executes at most so many times the instructions as promised."""
    allowed = {"O(1)": 1.05, "O(log tokens)": 2 * log2(MANY) / log2(FEW), "O(log nodes)": 2 * log2(MANY) / log2(FEW)}
    few, many = (_most_instructions(_crowd(spec, nodes)) for nodes in (FEW, MANY))
    limit = allowed.get(spec.lookup, 1.5 * MANY / FEW)
    assert many / few <= limit, f"{few} instructions with {FEW} nodes, {many} with {MANY}: not {spec.lookup}"


def _crowd(spec, nodes):
    topology = Topology(f"node-{number:04}" for number in range(nodes))
    if spec.takes == "topology":
        return spec(topology)
    return spec(Assignment(topology=topology, rows=tuple((slot % nodes,) for slot in range(32 * nodes))))


def _most_instructions(built):
    """Count twice: CPython 3.12 begins to report the opcodes of a function only when it was traced before."""
    return max(_instructions(built) for _ in range(2))


def _instructions(built):
    """Count the bytecode instructions of some lookups, in every Python frame below them. No clock."""
    executed = 0

    def trace(frame, event, _):
        nonlocal executed
        frame.f_trace_opcodes = True
        executed += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for key in KEYS[:5]:
            built.route(key)
    finally:
        sys.settrace(before)
    return executed


def _refuses(error, call):
    result = caught = None
    try:
        result = call()
    except error as refusal:
        caught = refusal
    assert caught is not None, f"{error.__name__} expected, got {result!r}"
    assert all((caught.problem, caught.hint)), "refused without a problem or a hint"


CHECKS = {
    "name": name_is_the_catalogs,
    "build": build_makes_a_placement,
    "source": source_has_a_page,
    "minimal_disruption": minimal_disruption_holds,
    "weighted": weighted_shares_follow_weights,
    "ranked": ranked_lists_have_any_length,
    "tabular": tabular_tables_hold_every_answer,
    "lookup": lookup_grows_as_promised,
    "removes": removes_as_promised,
    "takes": takes_what_it_says,
}
"""The check of each field; a field without one is a promise that nobody holds."""
