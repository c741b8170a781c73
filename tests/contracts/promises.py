"""The promises of each field of a `PlacementSpec`: one check per field, which raises AssertionError when it is broken.

`test_placements.py` holds every entry of the catalog to them, `test_planted.py` shows that each check can fail.
"""

import gc
import sys
from array import array
from collections import Counter
from functools import cache
from itertools import pairwise
from math import log2
from pathlib import Path

from apportion import Node, Topology, placement, plan
from apportion.errors import BadWeight, CannotPlace, InvalidInput, NotEnoughNodes
from tests import invariants
from tests.contracts.samples import assignment_of, follow, key_of, keys_of, position, start, unit_of

DOCS = Path(__file__).parents[2] / "docs" / "algorithms"
NODES = Topology(Node(name, zone=(name,)) for name in ("a", "b", "c", "d", "e"))
FEW, MANY = 8, 512


def name_is_the_catalogs(spec):
    """The catalog knows the spec by its name."""
    assert spec is placement.get(spec.name)
    assert spec.name in placement.names()


def build_makes_a_placement(spec):
    """A placement on a topology answers as the protocol says, in the same way for every call."""
    built, keys = built_of(spec), keys_of(spec)
    routed = [built.route(key) for key in keys]
    assert NODES == built.topology
    assert set(NODES.ids) == set(routed)
    assert routed == built.route_many(keys) == built.route_many(iter(keys))
    indexes = built.route_indexes(keys)
    assert (array, 2) == (type(indexes), indexes.itemsize)
    assert routed == [NODES.ids[index] for index in indexes]
    assert routed[:200] == [built.preference(key, 1)[0] for key in keys[:200]]
    assert routed[:50] == [built.explain(key).owner for key in keys[:50]]
    assert {spec.name} == {built.explain(key).placement for key in keys[:5]}


@cache
def built_of(spec):
    """Return the placement of a spec that all checks look at and none changes."""
    return start(spec, NODES)


def source_has_a_page(spec, docs=DOCS):
    """The algorithm has a page in the docs, and the page names where the idea comes from."""
    page = docs / f"{spec.name}.md"
    assert page.is_file(), f"{page} is missing"
    assert spec.source in page.read_text(), f"{page} does not mention {spec.source!r}"


def minimal_disruption_holds(spec):
    """Where promised: no key moves without a cause when nodes come, go, drain or change weight; but some do move."""
    if not spec.minimal_disruption:
        return
    old, keys = start(spec, _weighing(NODES, unit_of(spec))), keys_of(spec)
    for verb, topology in _changes(spec, old):
        new = follow(spec, old, topology)
        invariants.keys_move_only_with_cause(old, new, keys)
        exact, counted = plan(old, new, None if spec.tabular else keys), plan(old, new, keys)
        assert not any(map(exact.is_stray, exact.moves))
        invariants.nothing_strays(counted)
        assert 0 < counted.moved_ratio < 0.6, f"{verb}: {counted.moved_ratio} moved"


def _changes(spec, old):
    nodes, unit = old.topology, unit_of(spec)
    last = getattr(old, "order", nodes.ids)[-1]
    yield "add", nodes.add(Node("f", weight=unit))
    yield "without", nodes.without("c" if spec.removes == "any" else last)
    yield "drain", nodes.drain("b" if spec.removes == "any" else last)
    if spec.weighted:
        yield "heavier", nodes.reweight("a", 2.5 * unit)
        yield "lighter", nodes.reweight("d", 0.4 * unit)


def _weighing(topology, unit):
    """Return the topology with all weights so many times as large."""
    return Topology(Node(node.id, zone=node.zone, weight=node.weight * unit) for node in topology)


def weighted_shares_follow_weights(spec):
    """Where promised, shares are in proportion to weight; elsewhere unequal weights are refused. No node owns at 0.

    A placement of explicit data may take any weights, for the author of the data decides; but at 0 no node owns there
    too.
    """
    weights = (Node("a", weight=0.5), Node("b"), Node("c", weight=3), Node("d", weight=0), Node("e"))
    uneven = _weighing(weights[:4] if spec.weighted else weights, unit_of(spec))
    if not spec.weighted and (spec.takes != "explicit" or not _is_taken(spec, uneven)):
        _refuses(BadWeight, lambda: start(spec, uneven))
        return
    owned = Counter(start(spec, uneven).route_many(keys_of(spec)))
    assert owned["d"] == 0, f"d of weight 0 owns {owned['d']} keys"
    if spec.weighted:
        for node, share in (("a", 0.5 / 4.5), ("b", 1 / 4.5), ("c", 3 / 4.5)):
            off = abs(owned[node] / owned.total() - share)
            assert off <= 0.3 * share, f"{node} owns {owned[node]} of {owned.total()} keys"


def _is_taken(spec, topology):
    try:
        start(spec, topology)
    except BadWeight:
        return False
    return True


def ranked_lists_have_any_length(spec):
    """Where promised, preference lists go on to the last node: distinct, zones apart, each the beginning of the next.

    Elsewhere a second node is refused, or comes from an assignment.
    """
    built = built_of(spec)
    if not spec.ranked:
        _refuses(NotEnoughNodes, lambda: built.preference(key_of(spec, "k"), 2))
        return
    for key in keys_of(spec)[:200]:
        lists = [built.preference(key, count) for count in range(1, len(NODES) + 1)]
        assert [1, 2, 3, 4, 5] == [len(owners) for owners in lists]
        assert all(longer[:-1] == shorter for shorter, longer in pairwise(lists)), f"{key}: {lists}"
        for owners in lists:
            invariants.lists_keep_zones_apart(NODES, owners)
    _refuses(NotEnoughNodes, lambda: built.preference(key_of(spec, "k"), len(NODES) + 1))
    for count in range(3 if spec.name == "composite" else 1, len(NODES) + 1):
        _names_those_that_come_next(spec, start(spec, Topology(list(NODES)[:count])))


def _names_those_that_come_next(spec, built):
    for key in keys_of(spec)[:20]:
        owners = built.preference(key, min(3, len(built.topology)), spread="best-effort")
        explained = built.explain(key)
        assert owners == (explained.owner, *explained.next)


def tabular_tables_hold_every_answer(spec):
    """Where promised, `table()` answers for every key, at the key's position; elsewhere there is none."""
    built = built_of(spec)
    table = built.table()
    if not spec.tabular:
        assert table is None, f"{spec.name} has a table but does not say so"
        return
    assert table is not None, f"{spec.name} has no table"
    for key in keys_of(spec)[:500]:
        assert built.route(key) == table.owners(position(built, key))[0]
    for key in keys_of(spec)[:50]:
        assert table.range_at(position(built, key)) == built.explain(key).range
    if spec.ranked:
        _rows_are_preference_lists(built, keys_of(spec))


def _rows_are_preference_lists(built, keys):
    table = built.table(3)
    for key in keys[:200]:
        assert built.preference(key, 3) == table.owners(position(built, key))


def removes_as_promised(spec):
    """Any node may leave, or only the last in order and all others are refused, as promised."""
    old = built_of(spec)
    last = getattr(old, "order", NODES.ids)[-1]
    for node_id in NODES.ids:
        rest = NODES.without(node_id)
        if spec.removes == "any" or node_id == last:
            assert set(rest.ids) == set(follow(spec, old, rest).route_many(keys_of(spec)))
        else:
            _refuses(CannotPlace, lambda rest=rest: follow(spec, old, rest))


def takes_what_it_says(spec):
    """`build` takes the argument that the spec names: an assignment, or the nodes of an even first one, or nodes alone.

    A placement of nodes refuses an assignment. One of explicit data refuses both.
    """
    assignment = assignment_of(spec, NODES)
    if spec.takes == "assignment":
        assert spec(assignment).topology == NODES
        assert spec(NODES).topology == NODES
        assert hasattr(spec(NODES), "assignment")
    elif spec.takes == "topology":
        assert spec(NODES).route_many(keys_of(spec)) == spec(list(NODES)).route_many(keys_of(spec))
        _refuses(InvalidInput, lambda: spec(assignment))
    else:
        assert built_of(spec).topology == NODES
        _wants_more(lambda: spec(NODES))
        _wants_more(lambda: spec(assignment))


def _wants_more(call):
    """Python refuses a call without a needed argument; the placement refuses nodes where it wants another one."""
    try:
        built = call()
    except (TypeError, InvalidInput):
        return
    raise AssertionError(f"nodes alone made {built!r}")


def lookup_grows_as_promised(spec):
    """With 64 times the nodes a lookup executes at most so many times the instructions as promised.

    The native twin executes none that can be counted; `make live` runs this on the reference alone.
    """
    allowed = {"O(1)": 1.05, "O(log tokens)": 2 * log2(MANY) / log2(FEW), "O(log nodes)": 2 * log2(MANY) / log2(FEW)}
    few, many = (_steady_instructions(_crowd(spec, nodes), keys_of(spec)) for nodes in (FEW, MANY))
    limit = allowed.get(spec.lookup, 1.5 * MANY / FEW)
    assert many <= limit * few, f"{few} instructions with {FEW} nodes, {many} with {MANY}: not {spec.lookup}"


def _crowd(spec, nodes):
    topology = Topology(f"node-{number:04}" for number in range(nodes))
    return spec(assignment_of(spec, topology)) if spec.takes == "assignment" else start(spec, topology)


def _steady_instructions(built, keys):
    """Count twice, and return the second count.

    CPython 3.12 reports the opcodes of a function only if it was traced before. A first lookup may build a twin.
    """
    _instructions(built, keys)
    return _instructions(built, keys)


def _instructions(built, keys):
    """Count the bytecode instructions of some lookups, in every Python frame below them. No clock.

    No garbage is collected meanwhile: whoever watches collections, as hypothesis does, would be counted too.
    """
    executed = 0

    def trace(frame, event, _):
        nonlocal executed
        frame.f_trace_opcodes = True
        executed += event == "opcode"
        return trace

    before = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        for key in keys[:5]:
            built.route(key)
    finally:
        sys.settrace(before)
        gc.enable()
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
