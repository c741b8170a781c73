"""A schedule keeps its floor at every moment, whichever steps of a wave are done and whichever node dies then."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from apportion import Assignment, Node, Throttle, Topology, balance
from apportion.model.assignment import Rule
from tests.balance import rollout

pytestmark = pytest.mark.slow  # 200 examples each
LIMITS = st.sampled_from([None, 1, 1, 2, 3])
COUNTS = {"per_node": LIMITS, "per_zone": LIMITS, "per_cluster": LIMITS}
BYTES = {"per_node_bytes": st.sampled_from([9, 10, 12])}
throttles = st.one_of(
    st.builds(Throttle, **COUNTS), st.builds(Throttle, **BYTES), st.builds(Throttle, **COUNTS, **BYTES)
)


@st.composite
def hand_made(draw):
    """Draw two assignments of any lists: nodes gone, down, draining or new, partitions gone, new or never owned."""
    zones = st.sampled_from([(), ("x",), ("x", "1"), ("y",), ("z",)])
    nodes = st.lists(st.builds(Node, st.sampled_from("abcdefg"), zone=zones), min_size=1, unique_by=lambda n: n.id)
    old, new = Topology(draw(nodes)), Topology(draw(nodes))
    down = draw(st.sets(st.sampled_from(new.ids), max_size=len(new) - 1))
    sides = []
    for topology, least in ((old, 0), (new, 1)):
        eligible = [index for index, node in enumerate(topology.ids) if least == 0 or node not in down]
        names = draw(st.lists(st.sampled_from(["p", "q", "r", "s", "t"]), min_size=1, unique=True))
        lists = st.lists(st.sampled_from(eligible), min_size=least, max_size=4, unique=True).map(tuple)
        sides.append(
            Assignment(
                topology=topology,
                rows=tuple(draw(lists) for _ in names),
                names=tuple(names),
                down=tuple(down) if least else (),
                sizes=tuple(draw(st.integers(0, 9)) for _ in names),
                rule=draw(st.sampled_from([None, Rule(replicas=2, spread_level=0)])),
            )
        )
    return sides


@st.composite
def balanced(draw):
    """Draw what the balancer makes of a change: nodes join, leave, drain, are down or back, lists grow or shrink."""
    zones = [("x",), ("y",), ("z",)]
    nodes = [Node(name, zone=zones[place % 3]) for place, name in enumerate("abcdefg"[: draw(st.integers(4, 7))])]
    topology, partitions = Topology(nodes), draw(st.integers(1, 12))
    sizes = draw(st.lists(st.integers(0, 9), min_size=partitions, max_size=partitions))
    before = balance.optimal(partitions, draw(st.integers(1, 3)), topology, spread="best-effort", sizes=sizes)
    chosen = draw(st.sets(st.sampled_from(topology.ids), min_size=1, max_size=2))
    verb, live = draw(st.sampled_from(["add", "without", "drain", "down", "turn"])), None
    match verb:
        case "add":
            topology = topology.add(*(Node(f"m{node}", zone=zones[0]) for node in chosen))
        case "without":
            topology = topology.without(*chosen)
        case "drain":
            topology = topology.drain(*chosen)
        case _:
            live = [node for node in topology.ids if node not in chosen]
    replicas = draw(st.integers(1, 3))
    options = {"spread": "best-effort", "sizes": sizes}
    after = balance.optimal(partitions, replicas, topology, previous=before, live=live, **options)
    if verb == "turn":  # nodes come back while others go
        before = after
        after = balance.optimal(partitions, replicas, topology, previous=before, live=sorted(chosen), **options)
    return before, after


changes = st.one_of(hand_made(), balanced())


@settings(max_examples=200)
@given(changes, throttles, st.integers(0, 2), st.booleans(), st.randoms(use_true_random=False))
def test_every_prefix_keeps_the_floor_whichever_node_dies_and_ends_in_after(change, throttle, floor, fixed, random):
    before, after = change
    floor = min(floor, *(len(row) - 1 for row in after.rows)) if fixed else None
    made = balance.schedule(before, after, throttle=throttle, floor=floor, lost="leave")
    cluster = rollout.roll_out(made, before, after, random)
    assert rollout.is_like(cluster, after, made.lost)
    assert {p for p, nodes in cluster.start.items() if nodes and p in cluster.goal and len(nodes) <= made.floor} == set(
        made.below_floor
    )


@settings(max_examples=100)
@given(changes, throttles)
def test_no_wave_exceeds_a_limit_and_no_copy_waits_while_an_earlier_wave_has_room(change, throttle):
    before, after = change
    made = balance.schedule(before, after, throttle=throttle, lost="leave")
    assert [] == [limit for wave in made.waves for limit in rollout.used(wave, after, throttle)]
    for kind in (True, False):
        waves = [wave for wave in made.waves if wave.copies and wave.copies[0].is_recovery is kind]
        for number, wave in enumerate(waves):
            for copy in wave.copies:
                fuller = [replace(earlier, copies=(*earlier.copies, copy)) for earlier in waves[:number]]
                assert all(any(rollout.used(each, after, throttle)) for each in fuller)


@settings(max_examples=100)
@given(changes, throttles)
def test_nothing_is_copied_or_dropped_but_what_must_be(change, throttle):
    before, after = change
    made = balance.schedule(before, after, throttle=throttle, lost="leave")
    start = rollout.Cluster.before(before, after, 0).start
    kept = {partition: owners for partition, owners in after.preference_lists.items() if partition not in made.lost}
    wanted = {(partition, node) for partition, owners in kept.items() for node in owners}
    held = {(partition, node) for partition, nodes in start.items() for node in nodes}
    assert Counter(wanted - held) == Counter((copy.partition, copy.target) for copy in made.copies)
    assert Counter(held - wanted) == Counter((drop.partition, drop.node) for drop in made.drops)
    owned = {partition for partition, owners in before.preference_lists.items() if owners}
    assert set(made.lost) == {p for p in after.preference_lists if p in owned and not start[p]}


@settings(max_examples=100)
@given(changes, throttles)
def test_recovery_comes_before_any_load_moves(change, throttle):
    before, after = change
    made = balance.schedule(before, after, throttle=throttle, lost="leave")
    start = rollout.Cluster.before(before, after, 0).start
    recoveries = Counter(copy.partition for copy in made.copies if copy.is_recovery)
    missing = {p: len(owners) - len(start[p]) for p, owners in after.preference_lists.items() if start[p]}
    assert {p: count for p, count in missing.items() if count > 0} == dict(recoveries)
    in_waves = [{copy.is_recovery for copy in wave.copies} for wave in made.waves]
    last = max((number for number, kinds in enumerate(in_waves) if True in kinds), default=-1)
    assert all(kinds == {True} for kinds in in_waves[: last + 1])
    assert not any(wave.drops for wave in made.waves[: last + 1] if made.waves[last + 1 :])


@settings(max_examples=100)
@given(balanced())
def test_the_partition_with_the_fewest_live_replicas_is_recovered_first(change):
    before, after = change
    made = balance.schedule(before, after, throttle=Throttle(per_cluster=1), lost="leave")
    live = {p: len(nodes) for p, nodes in rollout.Cluster.before(before, after, 0).start.items()}
    in_turn = []
    for copy in made.copies:
        if copy.is_recovery:
            in_turn.append(live[copy.partition])
            live[copy.partition] += 1
    assert sorted(in_turn) == in_turn


@settings(max_examples=100)
@given(changes, throttles)
def test_costs_add_up(change, throttle):
    before, after = change
    made = balance.schedule(before, after, throttle=throttle, lost="leave")
    received, sent = Counter(), Counter()
    for copy in made.copies:
        size = after.size(copy.partition) if copy.source else 0
        assert size == copy.size_bytes
        received[copy.target] += size
        sent[copy.source] += size
    costs = made.per_node
    assert sum(received.values()) == made.copied_bytes == sum(cost.received_bytes for cost in costs.values())
    assert made.copied_bytes == sum(cost.sent_bytes for cost in costs.values())
    assert len(made.copies) == sum(cost.received for cost in costs.values())
    for node, cost in costs.items():
        assert (received[node], sent[node]) == (cost.received_bytes, cost.sent_bytes)
        in_waves = [wave.per_node[node] for wave in made.waves if node in wave.per_node]
        assert (cost.received, cost.sent) == (sum(c.received for c in in_waves), sum(c.sent for c in in_waves))
    assert costs.keys() == {node for wave in made.waves for node in wave.per_node}


@settings(max_examples=60)
@given(changes, throttles, st.randoms(use_true_random=False))
def test_a_schedule_that_was_stopped_goes_on_from_what_is_there(change, throttle, random):
    before, after = change
    made = balance.schedule(before, after, throttle=throttle, lost="leave")
    done = made.waves[: len(made.waves) // 2]
    cluster = rollout.Cluster.before(before, after, made.floor)
    for wave in done:
        for step in wave.steps:
            cluster.do(step)
    present = {
        partition: sorted(nodes, key=lambda node, leader=cluster.leaders[partition]: (node != leader, node))
        for partition, nodes in cluster.holders.items()
        if partition not in made.lost
    }
    goal = {partition: owners for partition, owners in after.preference_lists.items() if partition not in made.lost}
    assume(goal)
    here, there = (listed(after, lists) for lists in (present, goal))
    rest = balance.schedule(here, there, throttle=throttle)
    assert len(made.copies) == len(rest.copies) + sum(len(wave.copies) for wave in done)
    assert rollout.is_like(rollout.roll_out(rest, here, there, random), there, ())


def listed(after, lists):
    """Return lists of nodes as an assignment on the topology of another, without sizes that matter."""
    rows = tuple(tuple(map(after.topology.index, nodes)) for nodes in lists.values())
    return Assignment(topology=after.topology, rows=rows, names=tuple(lists), down=after.down, sizes=(1,) * len(rows))


@settings(max_examples=30)
@given(changes, throttles)
def test_the_last_wave_has_a_step(change, throttle):
    for last in balance.schedule(*change, throttle=throttle, lost="leave").waves[-1:]:
        assert last.copies or last.leads or last.drops


@settings(max_examples=30)
@given(changes, throttles)
def test_asking_twice_gives_the_same_schedule(change, throttle):
    once, twice = (balance.schedule(*change, throttle=throttle, lost="leave") for _ in range(2))
    assert once == twice
    assert str(once) == str(twice)
