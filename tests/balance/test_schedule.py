"""What a schedule does, by example, and what it refuses."""

import os
import re
import subprocess
import sys
from dataclasses import astuple, replace

import pytest

from apportion import Assignment, Node, Throttle, Topology, balance
from apportion.errors import InvalidInput, UnknownOption
from apportion.model import Copy, Drop, Lead, Traffic, Wave

ABCD = Topology(["a", "b", "c", "d"])


def assignment(topology, *lists, **fields):
    """Return an assignment of lists written as words of one-letter nodes."""
    return Assignment(topology=topology, rows=tuple(tuple(map(topology.index, row)) for row in lists), **fields)


@pytest.mark.slow
def test_every_process_makes_the_same_schedule():
    code = (
        "from apportion import Topology, Node, Throttle, balance;"
        "nodes = [Node(f'n{i}', zone=(f'z{i % 3}',)) for i in range(9)];"
        "before = balance.optimal(40, 3, Topology(nodes));"
        "after = balance.optimal(40, 3, before.topology.without('n1').add('m'), previous=before);"
        "print(*balance.schedule(before, after, throttle=Throttle(per_node=1, per_zone=3)).waves, sep='\\n')"
    )
    run = [sys.executable, "-c", code]
    printed = {
        subprocess.run(run, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2", "3")
    }
    assert 1 == len(printed)
    assert b"copy" in printed.pop()


def test_a_move_is_a_copy_then_a_change_of_leader_then_a_drop():
    before, after = assignment(ABCD, "ab", sizes=(7,)), assignment(ABCD, "cb", sizes=(7,))
    copy = Copy(partition="0", source="a", target="c", size_bytes=7, is_recovery=False)
    lead, drop = Lead(partition="0", node="c", was="a"), Drop(partition="0", node="a", size_bytes=7)
    made = balance.schedule(before, after)
    assert (Wave(copies=(copy,)), Wave(leads=(lead,)), Wave(drops=(drop,))) == made.waves
    assert (before.epoch, after.epoch, 1, 7) == (made.before, made.after, made.floor, made.copied_bytes)


def test_of_two_that_hold_it_who_can_send_first_does_though_it_has_sent_more():
    before, after = assignment(ABCD, "a", "b", "ab", sizes=(1, 9, 1)), assignment(ABCD, "c", "c", "db", sizes=(1, 9, 1))
    made = balance.schedule(before, after, throttle=Throttle(per_node=1))
    first, second = [[(copy.source, copy.target) for copy in wave.copies] for wave in made.waves if wave.copies]
    assert ([("a", "c"), ("b", "d")], [("b", "c")]) == (first, second)


def test_a_partition_whose_leader_is_gone_is_led_by_a_live_replica_until_its_new_leader_is_there():
    before, after = assignment(ABCD, "abc"), assignment(ABCD.without("a"), "dcb")
    made = balance.schedule(before, after)
    leads = [[(lead.was, lead.node) for lead in wave.leads] for wave in made.waves]
    assert [[(None, "c")], [("c", "d")]] == leads
    assert [True] == [copy.is_recovery for copy in made.copies]


def test_a_dead_leader_is_replaced_by_the_next_one_at_once_though_others_are_recovered_for_long():
    before = assignment(ABCD, *["abc"] * 5)
    after = assignment(ABCD.without("a"), *["bcd"] * 5)
    made = balance.schedule(before, after, throttle=Throttle(per_cluster=1))
    assert ([5, 0, 0, 0, 0], 5) == ([len(wave.leads) for wave in made.waves], len(made.copies))


def test_a_live_leader_gives_way_only_after_recovery():
    before = assignment(ABCD, "ab", "cd", "cd")
    after = assignment(ABCD.without("d"), "ba", "ca", "ca")
    made = balance.schedule(before, after, throttle=Throttle(per_node=1))
    assert [[], [], ["0"]] == [[lead.partition for lead in wave.leads] for wave in made.waves]


def test_of_two_missing_replicas_that_in_a_zone_without_a_live_one_is_recovered():
    zones = {"a": "1", "b": "2", "c": "3", "d": "3", "e": "1"}
    topology = Topology(Node(name, zone=(zone,)) for name, zone in zones.items())
    before, after = assignment(topology, "abc"), assignment(topology.without("a"), "bde")
    made = balance.schedule(before, after)
    assert [("e", True), ("d", False)] == [(copy.target, copy.is_recovery) for copy in made.copies]


def test_a_new_partition_is_made_empty_and_one_that_is_no_more_is_dropped_last():
    before = assignment(ABCD, "ab", "cd", names=("old", "stays"), sizes=(5, 6))
    after = assignment(ABCD, "ac", "ad", names=("new", "stays"), sizes=(8, 6))
    made = balance.schedule(before, after, throttle=Throttle(per_cluster=1))
    assert [("new", None, "a", 0), ("new", None, "c", 0), ("stays", "c", "a", 6)] == [
        (copy.partition, copy.source, copy.target, copy.size_bytes) for copy in made.copies
    ]
    assert {("old", "a", 5), ("old", "b", 5), ("stays", "c", 6)} == {
        (drop.partition, drop.node, drop.size_bytes) for drop in made.waves[-1].drops
    }
    assert made.drops == made.waves[-1].drops


def test_a_change_that_only_drops_partitions_is_one_wave():
    before, after = assignment(ABCD, "ab", "cd"), assignment(ABCD, "ab")
    assert [2] == [len(wave.steps) for wave in balance.schedule(before, after).waves]


@pytest.mark.parametrize("after", ["abc", "acb"])
def test_nothing_to_do_is_no_wave(after):
    made = balance.schedule(assignment(ABCD, "abc"), assignment(ABCD, after))
    assert ((), {}, 0) == (made.waves, made.per_node, made.copied_bytes)


def test_sending_is_spread_over_those_who_hold_a_replica():
    before, after = assignment(ABCD, *["abc"] * 9), assignment(ABCD.without("a").add("e"), *["bce"] * 9)
    costs = balance.schedule(before, after, throttle=Throttle()).per_node
    assert {"b": 5, "c": 4, "e": 0} == {node: cost.sent for node, cost in costs.items()}


@pytest.mark.parametrize(("before", "after"), [("aa", "bc"), ("ab", "cc"), ("ab", "bc")])
@pytest.mark.parametrize(
    ("throttle", "waves"),
    [
        (Throttle(), 1),
        (Throttle(per_node=2), 1),
        (Throttle(per_node=1), 2),
        (Throttle(per_zone=1), 2),
        (Throttle(per_cluster=1), 2),
        (Throttle(per_node_bytes=12), 1),
        (Throttle(per_node_bytes=11), 2),
    ],
    ids=str,
)
def test_two_copies_in_which_a_node_takes_part_are_at_once_or_not(before, after, throttle, waves):
    before, after = assignment(ABCD, *before, sizes=(6, 6)), assignment(ABCD, *after, sizes=(6, 6))
    made = balance.schedule(before, after, throttle=throttle)
    assert waves == sum(bool(wave.copies) for wave in made.waves)


def test_a_copy_within_a_zone_takes_part_in_it_once():
    topology = Topology(Node(name, zone=("x",)) for name in "abcd")
    before, after = assignment(topology, "a", "b"), assignment(topology, "c", "d")
    waves = [len(balance.schedule(before, after, throttle=Throttle(per_zone=n)).waves) for n in (1, 2)]
    assert [2 + 2, 1 + 2] == waves


def test_a_node_that_drains_and_one_that_comes_back_are_sources_and_one_that_is_down_is_none():
    before = assignment(ABCD, "a", "b", down=("a",))
    after = assignment(ABCD.drain("b"), "c", "c")
    assert ["a", "b"] == [copy.source for copy in balance.schedule(before, after).copies]
    after = replace(after, down=("b",))
    made = balance.schedule(before, after, lost="leave")
    assert (["a"], ("1",)) == ([copy.source for copy in made.copies], made.lost)


def test_the_free_space_that_a_node_needs_is_what_it_gets_before_it_drops():
    before, after = assignment(ABCD, "a", "b", sizes=(10, 4)), assignment(ABCD, "b", "a", sizes=(10, 4))
    costs = balance.schedule(before, after).per_node
    assert [(1, 4), (1, 10)] == [(cost.most_extra, cost.most_extra_bytes) for cost in costs.values()]


def test_a_node_that_drops_before_it_gets_more_needs_no_space():
    before, after = assignment(ABCD, *"abbc", sizes=(5,) * 4), assignment(ABCD, *"bcca", sizes=(5,) * 4)
    cost = balance.schedule(before, after, throttle=Throttle(per_cluster=1)).per_node["a"]
    assert (1, 0, 0) == (cost.received, cost.most_extra, cost.most_extra_bytes)


def test_bytes_are_unknown_where_sizes_are():
    made = balance.schedule(assignment(ABCD, "a"), assignment(ABCD, "b"))
    assert made.copied_bytes is None
    assert [(0, None, None), (None, 0, None)] == [
        (cost.received_bytes, cost.sent_bytes, cost.most_extra_bytes) for cost in made.per_node.values()
    ]


def test_a_schedule_says_itself_in_one_line():
    before = assignment(ABCD, "abc", "abd", "a", sizes=(4, 5, 6))
    after = assignment(ABCD.without("a"), "bcd", "bcd", "d", sizes=(4, 5, 6))
    made = balance.schedule(before, after, throttle=Throttle(per_node=1), lost="leave", floor=0)
    expected = "schedule: 2 waves, 2 copies of 9 bytes (2 recovery), 2 leader changes, 0 drops, floor 0, 1 lost, "
    assert expected + "at most 1 copies per node" == str(made)
    made = balance.schedule(before, replace(after, rows=((0, 1), (0, 1), (2, 1))), floor=1, lost="leave", now=5)
    assert "floor 1, 1 lost" in str(made)


def test_partitions_that_begin_below_the_floor_are_named():
    before, after = assignment(ABCD, "abc", "acd", "bcd"), assignment(ABCD.without("a"), "bcd", "bcd", "bcd")
    assert (("0", "1"), 2) == (
        (made := balance.schedule(before, after)).below_floor,
        made.floor,
    )
    assert "floor 2 (2 begin below)" in str(made)
    assert () == balance.schedule(before, after, floor=1).below_floor


def test_the_default_floor_is_one_less_than_the_shortest_list():
    before = assignment(ABCD, "abc", "abc")
    assert 1 == balance.schedule(before, assignment(ABCD, "abc", "ab")).floor
    assert 0 == balance.schedule(before, assignment(ABCD, "abc", "a")).floor


def test_a_throttle_that_has_expired_gives_way_to_the_next():
    before, after = assignment(ABCD, *["a"] * 6), assignment(ABCD, *["b"] * 6)
    night = Throttle(per_node=6, expires_at=100, then=Throttle(per_node=1))
    waves = [len(balance.schedule(before, after, throttle=night, now=now).waves) for now in (99.9, 100)]
    assert [1 + 2, 6 + 2] == waves
    assert Throttle(per_node=1) == balance.schedule(before, after, throttle=night, now=100).throttle
    with pytest.raises(InvalidInput, match="now is None, expected the time in seconds, because the throttle expires"):
        balance.schedule(before, after, throttle=night)


@pytest.mark.parametrize(
    ("options", "problem", "hint"),
    [
        ({"floor": -1}, "floor is -1, expected an int, not negative", "live replicas after a node died"),
        ({"floor": True}, "floor is True", "counts"),
        ({"floor": 1.0}, "floor is 1.0", "counts"),
        ({"floor": 2}, "floor is 2, expected less than 2, the replicas of partition '1'", "lower the floor"),
        ({"throttle": 2}, "throttle is 2, expected a Throttle", r"Throttle\(\) for no limit"),
        ({"throttle": None}, "throttle is None, expected a Throttle", r"Throttle\(\) for no limit"),
        ({"now": "noon"}, "now is 'noon', expected a finite number", "timestamp"),
        (
            {"throttle": Throttle(per_node_bytes=3)},
            "per_node_bytes of the throttle is 3, expected at least the 4",
            "raise",
        ),
    ],
)
def test_bad_options_are_refused(options, problem, hint):
    before, after = assignment(ABCD, "abc", "ab", sizes=(9, 4)), assignment(ABCD, "abc", "cd", sizes=(9, 4))
    with pytest.raises(InvalidInput, match=problem) as caught:
        balance.schedule(before, after, **options)
    assert re.search(hint, caught.value.hint)


def test_an_unknown_word_for_the_lost_is_refused():
    with pytest.raises(UnknownOption, match="lost is 'leaf'") as caught:
        balance.schedule(assignment(ABCD, "a"), assignment(ABCD, "b"), lost="leaf")
    assert "leave" == caught.value.nearest


A, B, A_A = assignment(ABCD, "a"), assignment(ABCD, "b"), assignment(ABCD, "a", "a")


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (ABCD, A, "before is a Topology, expected an Assignment"),
        (A, None, "after is None, expected an Assignment"),
        (A, assignment(Topology(["a"], cluster="x"), "a"), "cluster after is 'x', expected '', as before"),
        (A, assignment(ABCD, ""), "owners of '0' after is '', expected live nodes only"),
        (A, assignment(ABCD, "ab", down=("b",)), "owners of '0' after is 'a, b', expected live nodes only"),
        (
            A,
            assignment(ABCD.without("a"), "b"),
            "live replicas of partition '0' is 0, expected at least 1 to copy from",
        ),
        (A_A, assignment(ABCD, "b", "b", down=("a",)), r"live replicas of partition '0' \(and 1 more\) is 0"),
    ],
)
def test_bad_sides_are_refused(before, after, problem):
    with pytest.raises(InvalidInput, match=problem) as caught:
        balance.schedule(before, after)
    assert caught.value.hint


def test_limits_of_bytes_want_sizes():
    with pytest.raises(
        InvalidInput, match="size of partition '0' is None, expected known, because the throttle limits"
    ):
        balance.schedule(assignment(ABCD, "a"), assignment(ABCD, "b"), throttle=Throttle(per_node_bytes=5))


def test_sizes_are_taken_from_before_where_after_has_none():
    made = balance.schedule(assignment(ABCD, "a", sizes=(3,)), assignment(ABCD, "b", "c"), throttle=Throttle())
    assert {"0": 3, "1": None} == {copy.partition: copy.size_bytes for copy in made.copies}
    assert made.copied_bytes is None


def test_ten_thousand_partitions_take_a_second_and_not_a_minute():
    topology = Topology(Node(f"n{i:03}", zone=(f"z{i % 5}",)) for i in range(100))
    rows = tuple((i % 100, (i + 1) % 100, (i + 2) % 100) for i in range(10_000))
    before = Assignment(topology=topology, rows=rows)
    after = Assignment(
        topology=topology, rows=tuple(((i + 3) % 100, *row[1:]) if i < 3000 else row for i, row in enumerate(rows))
    )
    made = balance.schedule(before, after, throttle=Throttle(per_node=1, per_zone=4, per_cluster=10))
    assert 3000 == len(made.copies)
    assert len(made.waves) <= 400


def test_the_traffic_of_no_step_is_zero_throughout():
    assert {0} == set(astuple(Traffic()))
