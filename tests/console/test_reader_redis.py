"""What `redis-cli cluster nodes` prints is read whole, or refused by the number of the line or the slots that miss.

The samples were printed by redis-server 7.0.15: three leaders and a replica, then with a slot on its way out and one on
its way in, then with a killed leader that the asked node suspects.
"""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import balance, plan
from apportion.console.files.readers.redis_cluster import parse_cluster_nodes, read_cluster_nodes
from apportion.errors import BadRange, InvalidInput, UnknownOption
from apportion.placement.layouts.redis_slots import SLOTS, RedisSlots

SAMPLES = Path(__file__).parent / "samples"
SETTLED = (SAMPLES / "redis-cluster-nodes-7.0.txt").read_text()
MIGRATING = (SAMPLES / "redis-cluster-nodes-migrating.txt").read_text()
SUSPECTED = (SAMPLES / "redis-cluster-nodes-suspected.txt").read_text()
FIRST, MIDDLE, LAST = (
    "81a6cb3129291a5bfba2e7f00d40c1489890eab3",
    "ac83c0917c402d64f07ae3645f563c99c677102a",
    "f01ebef472fc882c322a13a27c9fdfcdfb061392",
)
REPLICA = "2938945a897622121f41c28615f0f8e559b929cf"


def line(node_id="a", slots="0-16383", *, address="10.0.0.1:6379@16379", flags="master", leader="-", link="connected"):
    """Return a line of `cluster nodes`; the id is one digit, forty times."""
    return f"{node_id * 40} {address} {flags} {leader} 0 0 1 {link} {slots}\n"


def test_the_slots_of_a_settled_cluster_are_read_whole():
    found = read_cluster_nodes(SAMPLES / "redis-cluster-nodes-7.0.txt")
    assert (FIRST, MIDDLE, LAST) == found.topology.ids
    assert {FIRST: 5461, MIDDLE: 5461, LAST: 5462} == found.assignment.loads
    owners = [found.assignment[slot] for slot in (0, 5460, 5461, 10_921, 10_922, 16_383)]
    assert [(FIRST,), (FIRST,), (MIDDLE,), (MIDDLE,), (LAST,), (LAST,)] == owners
    assert "127.0.0.1:51051" == found.addresses[MIDDLE]
    assert {FIRST: (REPLICA,), MIDDLE: (), LAST: ()} == found.replicas
    assert ({}, {}) == (found.migrating, found.importing)


def test_a_cluster_that_was_read_can_be_planned_on():
    cluster = RedisSlots(parse_cluster_nodes(SETTLED).assignment)
    bigger = RedisSlots(balance.slots(cluster.topology.add("new"), previous=cluster.assignment))
    change = plan(cluster, bigger)
    assert ({"new"}, 4096 / SLOTS, 0.0) == ({move.target for move in change.moves}, change.moved_ratio, 0.0)


def test_a_migrating_slot_is_refused_by_its_line_or_stays_where_it_is_when_accepted():
    with pytest.raises(InvalidInput, match="line 4 of cluster nodes is 'slot 93 moving, and 1 more'") as caught:
        parse_cluster_nodes(MIGRATING)
    assert "accept_migrating=True" in caught.value.hint
    found = parse_cluster_nodes(MIGRATING, accept_migrating=True)
    assert ({93: MIDDLE}, {6000: MIDDLE}) == (found.migrating, found.importing)
    assert parse_cluster_nodes(SETTLED).assignment == found.assignment


def test_a_suspected_owner_is_refused_by_its_line_or_keeps_its_slots_when_accepted():
    with pytest.raises(InvalidInput, match="line 2 of cluster nodes is 'fail\\?,master") as caught:
        parse_cluster_nodes(SUSPECTED)
    assert "accept_suspected=True" in caught.value.hint
    assert parse_cluster_nodes(SETTLED).assignment == parse_cluster_nodes(SUSPECTED, accept_suspected=True).assignment


@pytest.mark.parametrize("flags", ["master,fail", "master,noaddr", "master,handshake", "handshake", "myself,noflags"])
def test_an_owner_that_is_down_is_refused_whatever_is_accepted(flags):
    with pytest.raises(InvalidInput, match=r"line 1 of cluster nodes is .* expected an owner that is up") as caught:
        parse_cluster_nodes(line(flags=flags), accept_suspected=True, accept_migrating=True)
    assert "accept" not in caught.value.hint


def test_a_node_without_slots_may_own_if_it_is_up_and_is_left_out_if_not():
    text = line("a") + line("b", "") + line("c", "", flags="master,fail") + line("d", "", flags="handshake")
    text += line("e", "", address=":0@0", flags="master,noaddr") + line("f", "", flags="slave,fail", leader="a" * 40)
    text += line("0", "", flags="slave,nofailover", leader="c" * 40) + line("1", "", flags="master,fail?")
    found = parse_cluster_nodes(text)
    assert ("a" * 40, "b" * 40) == found.topology.ids
    assert {"a" * 40: (), "b" * 40: ()} == found.replicas
    assert "1" * 40 in parse_cluster_nodes(text, accept_suspected=True).topology


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1:6379", "10.0.0.1:6379"),
        ("10.0.0.1:6379@16379,redis-1.example", "10.0.0.1:6379"),
        ("10.0.0.1:6379@16379,,tls-port=0,shard-id=" + "a" * 40, "10.0.0.1:6379"),
        ("2001:db8::1:6379@16379", "2001:db8::1:6379"),
        (":6380@16380", ":6380"),
    ],
)
def test_addresses_of_every_release_are_read(address, expected):
    assert {"a" * 40: expected} == parse_cluster_nodes(line(address=address)).addresses


@pytest.mark.slow
@settings(max_examples=15)
@given(st.lists(st.integers(1, SLOTS - 1), max_size=30, unique=True), st.randoms(use_true_random=False))
def test_ranges_in_any_order_cover_what_they_name(cuts, random):
    bounds = [0, *sorted(cuts), SLOTS]
    ranges = [(start, end - 1) for start, end in pairwise(bounds)]
    slots = {digit: [] for digit in "ab"}
    expected = {}
    random.shuffle(ranges)
    for number, (first, last) in enumerate(ranges):
        digit = "ab"[number % 2]
        slots[digit].append(str(first) if first == last else f"{first}-{last}")
        expected.update(dict.fromkeys(range(first, last + 1), digit * 40))
    found = parse_cluster_nodes("".join(line(digit, " ".join(words)) for digit, words in slots.items()))
    assert expected == {slot: found.assignment[slot][0] for slot in range(SLOTS)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            line(slots="0-5460 5462-16383"),
            "cluster nodes: slot is 5461, expected a slot with an owner; 1 slots have none",
        ),
        (line(slots="1-16383"), "slot is 0,"),
        (line(slots="0-16382"), "slot is 16383,"),
        (line(slots=""), "slot is 0, expected a slot with an owner; 16384 slots have none"),
        (line("a") + line("b", "7"), "line 2 of cluster nodes: slot is 7, expected named once; line 1 has it"),
        (line(slots="0-16383 5"), "line 1 of cluster nodes: slot is 5,"),
    ],
)
def test_a_gap_or_an_overlap_is_refused_by_its_slot(text, says):
    with pytest.raises(BadRange, match=says):
        parse_cluster_nodes(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\n\nERR This node has cluster support disabled\n", "line 3 of cluster nodes is 'ERR"),
        (line(slots="0-16384"), "line 1 .* slots like 7 or 0-5460"),
        (line(slots="9-5"), "line 1 .* slots like"),
        (line(slots="0-5460-9"), "line 1 .* slots like"),
        (line(slots="0-16383 [93->-abc]"), "line 1 .* a mark like"),
        (line(slots=f"0-16383 [16384->-{'b' * 40}]"), "line 1 .* a mark like"),
        (line(node_id="A"), "line 1 .* 40 hexadecimal digits"),
        (line(address="10.0.0.1"), "line 1 .* host:port@port"),
        (line(leader="?"), "line 1 .* the leader's id or -"),
        (line(link="up"), r"line 1 .* \(dis\)connected"),
        (line().replace(" 0 0 1 ", " 0 0 x "), "line 1 .* three numbers"),
        (line(flags="master,slave"), "line 1 .* one of master and slave"),
        (line(flags="myself"), "line 1 .* one of master and slave"),
        (line() + line(), f"line 2 of cluster nodes is '{'a' * 40}', expected another node than in line 1"),
        (
            line("a") + line("b", "", flags="slave", leader="c" * 40),
            "line 2 .* the id of a leader with a line of its own",
        ),
        (line("a", "") + line("b", flags="slave", leader="a" * 40), "line 2 .* a replica without slots"),
    ],
)
def test_a_line_that_cannot_be_meant_is_refused_by_its_number(text, says):
    with pytest.raises(InvalidInput, match=says) as caught:
        parse_cluster_nodes(text)
    assert caught.value.hint


def test_an_unknown_flag_names_the_nearest():
    with pytest.raises(UnknownOption, match="Did you mean 'master'"):
        parse_cluster_nodes(line(flags="mastr"))


def test_a_file_that_is_not_text_is_refused_by_its_line(tmp_path):
    path = tmp_path / "nodes.txt"
    path.write_bytes(line().encode() + b"\xff\n")
    with pytest.raises(InvalidInput, match="in line 2, is not"):
        read_cluster_nodes(path)
