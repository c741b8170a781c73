"""An entity touches at most `width` nodes, its periods take them in turn, and a scan covers a time without gap."""

import pickle
from collections import Counter
from itertools import groupby, pairwise, product
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Jump, Node, Rendezvous, Ring, Slots, Topology, balance, plan
from apportion.errors import BadRange, CannotPlace, InvalidInput, NotEnoughNodes, UnknownOption
from apportion.placement import composite as module
from apportion.placement.composite import SPEC, Composite
from apportion.placement.directory import Directory
from apportion.placement.keys.key_bytes import key_bytes
from tests import invariants, twins, worlds

ABCDE = Topology(Node(name, zone=(name,)) for name in "abcde")
BASE = Rendezvous(ABCDE)
DAYS = Composite(BASE)
MINUTES = Composite(BASE, width=3, period_seconds=60)
ENTITIES = [f"meter-{number}" for number in range(300)]
FIRST, LAST = -(2**63), 2**63 - 1
FEW = settings(max_examples=25)
seconds = st.one_of(st.integers(-500, 500), st.integers(FIRST, LAST), st.sampled_from([FIRST, LAST]))
entities = st.one_of(worlds.keys, st.integers(FIRST, LAST))


def twin(base, entity, moment, *, width, period):
    """Return the node by counting periods one by one, backwards below 0."""
    turn, start = 0, 0
    while moment >= start + period:
        turn, start = (turn + 1) % width, start + period
    while moment < start:
        turn, start = (turn - 1) % width, start - period
    return base.preference(entity, width)[turn]


@FEW
@given(entities, st.integers(-500, 500), st.integers(1, 5), st.integers(1, 100))
def test_a_period_is_where_the_dumb_twin_counts_it(entity, moment, width, period):
    composite = Composite(BASE, width=width, period_seconds=period)
    expected = twin(BASE, entity, moment, width=width, period=period)
    assert expected == composite.route_at(entity, moment)


@FEW
@given(entities, seconds)
def test_a_key_of_entity_and_seconds_is_routed_every_way_alike(entity, moment):
    key = MINUTES.key(entity, moment)
    owner = MINUTES.route_at(entity, moment)
    assert key_bytes(entity) + b"|%d" % moment == key
    assert owner == MINUTES.route(key) == MINUTES.preference(key, 1)[0] == MINUTES.explain(key).owner
    assert [owner, owner] == MINUTES.route_many([key, key]) == MINUTES.route_many(iter([key, key]))
    assert [owner] == [ABCDE.ids[index] for index in MINUTES.route_indexes([key])]
    assert owner in MINUTES.nodes(entity)


def test_a_text_key_is_read_as_its_bytes_and_the_last_separator_counts():
    assert MINUTES.route("é|61") == MINUTES.route("é|61".encode()) == MINUTES.route_at("é", 61)
    assert MINUTES.route("a|7|61") == MINUTES.route_at("a|7", 61)
    assert MINUTES.route("|61") == MINUTES.route_at("", 61)
    assert MINUTES.route("x|0061") == MINUTES.route("x|61") == MINUTES.route_at("x", 61)
    assert MINUTES.route("x|-1") == MINUTES.route_at("x", -1) == MINUTES.nodes("x")[2]
    dashed = Composite(BASE, width=3, period_seconds=60, separator="::")
    assert dashed.route("a:b::61") == MINUTES.route_at("a:b", 61)
    assert b"a:b::61" == dashed.key("a:b", 61)


@pytest.mark.parametrize(
    "key",
    ["", "x", "x|", "|", "61", "x|6.1", "x|+6", "x| 6", "x|6 ", "x|--6", "x|6|", "x|0x6", "x|6_1", "x|٣", "x|6\n",
     b"x|\xff", "x:61", f"x|{2**63}", f"x|{-(2**63) - 1}", "x|" + "9" * 50, 61, 0x317C78, UUID(int=1)],
)  # fmt: skip
def test_what_is_not_of_the_form_is_refused_with_the_form(key):
    for ask in (MINUTES.route, MINUTES.explain, lambda key: MINUTES.preference(key, 1)):
        with pytest.raises(InvalidInput, match=r"key is .*expected the form entity\|seconds") as caught:
            ask(key)
        assert "key(entity, seconds)" in caught.value.hint


@pytest.mark.parametrize("key", [None, 1.5, True, "\ud800|1", bytearray(b"x|1")])
def test_what_is_no_key_is_refused(key):
    with pytest.raises(InvalidInput, match="key is"):
        MINUTES.route(key)


def test_the_key_limit_holds_for_the_whole_key():
    assert 65_536 == len(MINUTES.key("x" * 65_534, 7))
    with pytest.raises(InvalidInput, match="65536 bytes"):
        MINUTES.key("x" * 65_534, 77)


@FEW
@given(entities, st.lists(seconds, max_size=30), st.integers(1, 5))
def test_an_entity_touches_at_most_width_nodes(entity, moments, width):
    composite = Composite(BASE, width=width, period_seconds=7)
    nodes = composite.nodes(entity)
    assert (width, BASE.preference(entity, width)) == (len(set(nodes)), nodes)
    assert {composite.route_at(entity, moment) for moment in moments} <= set(nodes)


@FEW
@given(entities, st.integers(-1000, 1000), st.integers(1, 5))
def test_any_width_periods_in_a_row_take_each_node_once(entity, period, width):
    composite = Composite(BASE, width=width, period_seconds=60)
    turns = [composite.route_at(entity, 60 * (period + number)) for number in range(width)]
    assert sorted(composite.nodes(entity)) == sorted(turns)


@FEW
@given(entities, st.integers(-300, 300), st.integers(1, 300), st.integers(1, 5), st.integers(1, 50))
def test_a_scan_is_that_of_the_dumb_twin_that_asks_for_every_second(entity, start, length, width, period):
    composite = Composite(BASE, width=width, period_seconds=period)
    runs = groupby(range(start, start + length), key=lambda moment: composite.route_at(entity, moment))
    listed = [(node_id, list(moments)) for node_id, moments in runs]
    expected = [(moments[0], moments[-1] + 1, node_id) for node_id, moments in listed]
    assert expected == composite.scan(entity, start, start + length)


@FEW
@given(entities, seconds, seconds)
def test_a_scan_covers_its_time_without_gap_or_overlap(entity, one, other):
    start, end = sorted([one, other])
    coarse = Composite(BASE, width=3, period_seconds=2**58)
    if start == end:
        return
    stretches = coarse.scan(entity, start, end)
    assert (start, end) == (stretches[0][0], stretches[-1][1])
    assert all(left[1] == right[0] and left[2] != right[2] for left, right in pairwise(stretches))
    assert all(low < high for low, high, _ in stretches)
    for low, high, node_id in stretches:
        assert {node_id} == {coarse.route_at(entity, moment) for moment in (low, high - 1)}


@pytest.mark.parametrize(("start", "end"), [(5, 5), (6, 5), (LAST, FIRST)])
def test_a_scan_that_ends_before_it_starts_is_refused(start, end):
    with pytest.raises(BadRange, match="end_seconds is"):
        MINUTES.scan("x", start, end)


def test_a_scan_of_too_many_periods_is_refused_and_one_of_the_most_is_not(monkeypatch):
    with pytest.raises(BadRange, match="periods of the scan is 307445734561825862, expected at most MAX_PERIODS"):
        MINUTES.scan("x", FIRST, LAST)
    monkeypatch.setattr(module, "MAX_PERIODS", 3)
    assert 3 == len(MINUTES.scan("x", 59, 121))
    with pytest.raises(BadRange, match="expected at most MAX_PERIODS = 3"):
        MINUTES.scan("x", 59, 181)
    assert [(FIRST, LAST, BASE.route("x"))] == Composite(BASE, width=1).scan("x", FIRST, LAST)


@pytest.mark.parametrize("moment", [None, 1.0, "5", True, 2**63, FIRST - 1])
def test_what_is_no_time_is_refused(moment):
    for ask in (MINUTES.route_at, MINUTES.key, lambda entity, moment: MINUTES.scan(entity, moment, 5)):
        with pytest.raises(InvalidInput, match="seconds is"):
            ask("x", moment)


@FEW
@given(worlds.owning_topologies, worlds.keys, st.integers(-5, 5), st.data())
def test_lists_begin_with_the_turns_and_keep_zones_apart_as_the_dumb_twin_does(topology, entity, turn, data):
    owning = [node.id for node in topology if node.weight]
    width, level = data.draw(st.integers(1, len(owning))), data.draw(st.sampled_from([None, 0]))
    composite = Composite(Rendezvous(topology), width=width, period_seconds=10, spread="best-effort")
    nodes, key = composite.nodes(entity), composite.key(entity, 10 * turn)
    listed = composite.base.preference(entity, len(owning), spread_level=level, spread="best-effort")
    first = [nodes[(turn + number) % width] for number in range(width)]
    ranking = [topology.index(each) for each in [*first, *(each for each in listed if each not in first)]]
    domains = [node.fault_domain(level) for node in topology]
    for count in range(1, len(owning) + 1):
        expected = tuple(topology.ids[index] for index in twins.spread(ranking, domains, count))
        found = composite.preference(key, count, spread_level=level, spread="best-effort")
        assert expected == found
        if count <= len({domains[topology.index(each)] for each in owning}):
            invariants.lists_keep_zones_apart(topology, found, level)
            assert expected == composite.preference(key, count, spread_level=level)
        else:
            with pytest.raises(NotEnoughNodes):
                composite.preference(key, count, spread_level=level)
    lists = [composite.preference(key, count, spread="best-effort") for count in range(1, len(owning) + 1)]
    assert all(longer[:-1] == shorter for shorter, longer in pairwise(lists))


CHANGES = {
    "add": lambda topology: topology.add(Node("bb", zone=("bb",))),
    "add to a zone": lambda topology: topology.add(Node("bb", zone=("c",))),
    "without": lambda topology: topology.without("c"),
    "drain": lambda topology: topology.drain("b"),
    "heavier": lambda topology: topology.reweight("a", 2.5),
    "lighter": lambda topology: topology.reweight("d", 0.4),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("base", [BASE, Ring(ABCDE, vnodes=20)], ids=["rendezvous", "ring"])
def test_a_node_joins_or_leaves_the_nodes_of_an_entity_only_with_a_cause(base, change):
    old = Composite(base, width=3)
    new = old.on(change(ABCDE))
    invariants.nothing_strays(plan(old.base, new.base, ENTITIES, replicas=3))
    for entity in ENTITIES:
        before, after = set(old.nodes(entity)), set(new.nodes(entity))
        assert len(after - before) <= 1, f"{entity}: {before} -> {after} for one node that changed"
        assert base.on(change(ABCDE)).preference(entity, 3) == new.nodes(entity)


def test_single_periods_may_move_between_nodes_that_stay_as_the_spec_says():
    old = Composite(BASE, width=3, period_seconds=60)
    change = plan(old, old.on(ABCDE.add("f")), [old.key(entity, 60 * n) for entity in ENTITIES for n in range(3)])
    assert 0 < change.stray_ratio < change.moved_ratio
    assert SPEC.minimal_disruption is False


def test_no_rotation_without_memory_keeps_every_period_with_a_node_that_stays():
    # The two nodes of an entity whose ranking is n, a, b, c, and the node that leaves on each of two ways to (b, c).
    ways = [(("n", "a"), ("a", "b")), (("a", "b"), ("b", "c")), (("n", "a"), ("n", "b")), (("n", "b"), ("b", "c"))]
    lists = sorted({nodes for way in ways for nodes in way})
    kept = []
    for turns in product([(0, 1), (1, 0)], repeat=len(lists)):
        turn = {nodes: dict(zip(nodes, order, strict=True)) for nodes, order in zip(lists, turns, strict=True)}
        kept.append(all(turn[old][each] == turn[new][each] for old, new in ways for each in {*old} & {*new}))
    assert 16 == len(kept)
    assert not any(kept)


def test_the_load_of_many_entities_is_even_at_any_one_time():
    loads = Counter(DAYS.route_at(entity, 86_400 * 20_000) for entity in ENTITIES)
    assert all(abs(loads[node_id] - 60) < 6 * 60**0.5 for node_id in "abcde"), loads


def test_an_explanation_names_the_period_its_turn_and_the_nodes():
    key = MINUTES.key("meter-1", 125)
    explained, nodes = MINUTES.explain(key), MINUTES.nodes("meter-1")
    assert explained.why.startswith(f"period 2 falls to number 2 of {', '.join(nodes)}; for the entity, {nodes[0]} has")
    assert (nodes[2], nodes[:2], key) == (explained.owner, explained.next, explained.key)
    assert 7 == len(str(explained).splitlines())


@pytest.mark.parametrize("base", [BASE, Ring(ABCDE, vnodes=5)], ids=["rendezvous", "ring"])
def test_an_explanation_names_who_takes_over(base):
    composite = Composite(base, width=3, period_seconds=60)
    for entity in ENTITIES[:20]:
        for moment in (0, 60, 120):
            explained = composite.explain(composite.key(entity, moment))
            rest = composite.on(ABCDE.without(explained.owner))
            assert explained.if_owner_left == rest.route_at(entity, moment)
    widest = Composite(base, width=5)
    assert None is widest.explain("x|1").if_owner_left
    assert widest.preference("x|1", 3)[1:] == widest.explain("x|1").next


def test_on_moves_the_base_and_keeps_the_rotation():
    bigger = MINUTES.on(ABCDE.add("f"))
    assert Composite(BASE.on(ABCDE.add("f")), width=3, period_seconds=60) == bigger
    assert (ABCDE.add("f"), ABCDE) == (bigger.topology, MINUTES.topology)
    with pytest.raises(CannotPlace, match="an entity cannot rotate over 4 nodes: 4 replicas wanted"):
        DAYS.on(ABCDE.without("a", "b"))


def test_a_width_that_the_base_cannot_rank_is_refused_with_the_way_out():
    with pytest.raises(CannotPlace, match="cannot rotate over 6 nodes") as caught:
        Composite(BASE, width=6)
    assert "Lower width" in caught.value.hint
    with pytest.raises(CannotPlace, match="from Jump"):
        Composite(Jump(ABCDE), width=2)
    assert Jump(ABCDE).route("x") == Composite(Jump(ABCDE), width=1).route("x|5")
    with pytest.raises(CannotPlace, match="from an assignment of 1"):
        Composite(Slots(balance.slots(ABCDE, count=8)))


def test_fewer_zones_than_width_are_refused_unless_zones_may_be_used_again():
    topology = Topology(Node(f"n{number}", zone=(f"z{number % 2}",)) for number in range(6))
    with pytest.raises(CannotPlace, match="in distinct zones") as caught:
        Composite(Rendezvous(topology))
    assert "spread='best-effort'" in caught.value.hint
    composite = Composite(Rendezvous(topology), spread="best-effort")
    for entity in ENTITIES[:20]:
        assert {"z0": 2, "z1": 2} == Counter(topology[node_id].zone[0] for node_id in composite.nodes(entity))


def test_an_exception_in_the_base_is_the_first_node_of_its_entity():
    composite = Composite(Directory(BASE, exceptions={"vip": "e"}), width=2)
    assert "e" == composite.route_at("vip", 0) != composite.route_at("vip", 86_400)


@pytest.mark.parametrize(
    ("options", "error", "fault"),
    [
        ({"width": 0}, InvalidInput, "width is 0, expected an int of at least 1"),
        ({"width": True}, InvalidInput, "width is True"),
        ({"width": 2.0}, InvalidInput, "width is 2.0"),
        ({"period_seconds": 0}, InvalidInput, "period_seconds is 0"),
        ({"period_seconds": -60}, InvalidInput, "period_seconds is -60"),
        ({"period_seconds": 2**63}, InvalidInput, "below 2"),
        ({"separator": ""}, InvalidInput, "separator is ''"),
        ({"separator": "-"}, InvalidInput, "without digits and without -"),
        ({"separator": "a1"}, InvalidInput, "without digits"),
        ({"separator": b"|"}, InvalidInput, "separator is b'|'"),
        ({"separator": None}, InvalidInput, "separator is None"),
        ({"separator": "\ud800"}, InvalidInput, "surrogates"),
        ({"separator": "é" * 9}, InvalidInput, "at most 16 bytes"),
        ({"spread": "wide"}, UnknownOption, "spread is 'wide'"),
    ],
)
def test_options_that_make_no_rotation_are_refused(options, error, fault):
    with pytest.raises(error, match=fault):
        Composite(BASE, **options)


@pytest.mark.parametrize("base", [None, ABCDE, Ring, "ring"], ids=lambda each: type(each).__name__)
def test_what_is_no_placement_is_no_base(base):
    with pytest.raises(InvalidInput, match="base is"):
        Composite(base)


def test_a_composite_has_no_table():
    assert None is DAYS.table()
    with pytest.raises(InvalidInput, match="Composite has no table"):
        plan(DAYS, DAYS)


def test_a_composite_survives_pickling():
    composite = Composite(BASE, width=2, period_seconds=60, separator="::", spread="best-effort")
    back = pickle.loads(pickle.dumps(composite))
    assert (composite, hash(composite), repr(composite)) == (back, hash(back), repr(back))
    assert composite.scan("x", 0, 600) == back.scan("x", 0, 600)
    assert f"Composite({BASE!r}, width=2, period_seconds=60, separator='::', spread='best-effort')" == repr(back)


def test_composites_are_equal_when_base_and_options_are():
    assert Composite(Rendezvous(ABCDE), width=4, period_seconds=86_400, separator="|") == DAYS
    others = [
        MINUTES,
        Composite(BASE, separator=":"),
        Composite(BASE, spread="best-effort"),
        BASE,
        Composite(Ring(ABCDE)),
    ]
    assert all(DAYS != other for other in others)


def test_the_spec_says_what_a_composite_is():
    assert ("composite", Composite, "explicit", False) == (SPEC.name, SPEC.build, SPEC.takes, SPEC.tabular)
