"""What is refused, with which words; and what is odd but a member may send."""

import pytest

from apportion import balance
from apportion.balance.kafka import Subscription
from apportion.errors import InvalidInput

NAMES = ("kafka.range", "kafka.roundrobin", "kafka.sticky", "kafka.cooperative", "kafka.optimal")
MEMBER = Subscription("a", topics=["t"], rack="r1")


@pytest.mark.parametrize(
    ("fields", "named", "found"),
    [
        ({"topics": "t"}, "topics of 'a'", "'t'"),
        ({"topics": 3}, "topics of 'a'", "3"),
        ({"topics": None}, "topics of 'a'", "None"),
        ({"topics": [1]}, "a topic of 'a'", "1"),
        ({"topics": [""]}, "a topic of 'a'", "''"),
        ({"owned": "t0"}, "owned of 'a'", "'t0'"),
        ({"owned": 7}, "owned of 'a'", "7"),
        ({"owned": ["t"]}, "owned of 'a'", "'t'"),
        ({"owned": [("t", 0), ("t",)]}, "owned of 'a'", "('t',)"),
        ({"owned": [("t", -1)]}, "owned of 'a'", "('t', -1)"),
        ({"owned": [("t", True)]}, "owned of 'a'", "('t', True)"),
        ({"owned": [("t", "0")]}, "owned of 'a'", "('t', '0')"),
        ({"owned": [("t", 2**31)]}, "owned of 'a'", "('t', 2147483648)"),
        ({"owned": [(b"t", 0)]}, "owned of 'a'", "(b't', 0)"),
        ({"owned": [["t", 0]]}, "owned of 'a'", "['t', 0]"),
        ({"generation": "1"}, "generation of 'a'", "'1'"),
        ({"generation": True}, "generation of 'a'", "True"),
        ({"generation": 2**31}, "generation of 'a'", "2147483648"),
        ({"group_instance_id": ""}, "static id of 'a'", "''"),
        ({"group_instance_id": 1}, "static id of 'a'", "1"),
        ({"rack": 1}, "rack of 'a'", "1"),
    ],
)
def test_a_subscription_that_cannot_be_is_refused(fields, named, found):
    with pytest.raises(InvalidInput) as caught:
        Subscription("a", **{"topics": ["t"]} | fields)
    assert named == caught.value.field
    assert found in caught.value.problem.replace('"', "")
    assert caught.value.hint


@pytest.mark.parametrize("member_id", ["", None, 1, b"a"])
def test_a_member_has_an_id(member_id):
    with pytest.raises(InvalidInput, match="member id is"):
        Subscription(member_id, topics=["t"])


def test_what_a_member_may_send_is_taken():
    odd = Subscription("a", topics=("t", "u", "t"), owned=iter([("gone", 3)]), generation=-7, rack="")
    assert (("t", "u"), (("gone", 3),), -1, None) == (odd.topics, odd.owned, odd.generation, odd.rack)
    assert Subscription("a", topics=[]).topics == ()


def test_claims_in_a_named_tuple_of_a_client_are_claims():
    partition = pytest.importorskip("kafka").TopicPartition("t", 3)
    owned = Subscription("a", topics=["t"], owned=[partition]).owned
    assert (("t", 3),) == owned
    assert tuple is type(owned[0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("topics", "members", "options", "named"),
    [
        ([("t", 1)], [MEMBER], {}, "topics"),
        ({1: 1}, [MEMBER], {}, "topic"),
        ({"": 1}, [MEMBER], {}, "topic"),
        ({"t": -1}, [MEMBER], {}, "partitions of 't'"),
        ({"t": "3"}, [MEMBER], {}, "partitions of 't'"),
        ({"t": True}, [MEMBER], {}, "partitions of 't'"),
        ({"t": 2**24 + 1}, [MEMBER], {}, "partitions of 't'"),
        ({"t": 2**24, "u": 1}, [Subscription("a", topics=["t", "u"])], {}, "partitions"),
        ({"t": 1}, [], {}, "members"),
        ({"t": 1}, "a", {}, "members"),
        ({"t": 1}, {"a": MEMBER}, {}, "members"),
        ({"t": 1}, None, {}, "members"),
        ({"t": 1}, ["a"], {}, "member"),
        ({"t": 1}, [MEMBER, MEMBER], {}, "member id"),
        ({"t": 1}, [MEMBER], {"racks": ["r1"]}, "racks"),
        ({"t": 1}, [MEMBER], {"racks": {("t", 0): "r1"}}, "racks of 't' 0"),
        ({"t": 1}, [MEMBER], {"racks": {("t", 0): [None]}}, "racks of 't' 0"),
        ({"t": 1}, [MEMBER], {"racks": {("t", 0): 1}}, "racks of 't' 0"),
    ],
)
def test_a_group_that_cannot_be_is_refused(name, topics, members, options, named):
    with pytest.raises(InvalidInput) as caught:
        balance.get(name)(topics, members, **options)
    assert named == caught.value.field
    assert caught.value.hint


@pytest.mark.parametrize("name", NAMES)
def test_racks_are_looked_at_although_no_member_has_one(name):
    members = [Subscription("a", topics=["t"]), Subscription("b", topics=["t"])]
    for racks in (5, {("t", 0): "r1"}, {("t", "0"): ["r1"]}):
        with pytest.raises(InvalidInput, match="racks"):
            balance.get(name)({"t": 2}, members, racks=racks)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("key", ["t", 0, ("t",), ("t", "0"), ("t", -1), ("t", True), ("t", 2**31), (b"t", 0), None])
def test_racks_are_of_partitions(name, key):
    with pytest.raises(InvalidInput, match="partition of racks is"):
        balance.get(name)({"t": 1}, [MEMBER], racks={("t", 0): ["r1"], key: ["r1"]})


@pytest.mark.parametrize("name", NAMES)
def test_topics_that_nobody_knows_or_wants_or_that_are_empty_are_left_out(name):
    members = [Subscription("a", topics=["t", "nowhere", "empty"]), Subscription("b", topics=["nowhere"])]
    assigned = balance.get(name)({"t": 2, "empty": 0, "unwanted": 5}, members)
    assert {"a": (("t", 0), ("t", 1)), "b": ()} == assigned.by_member
    assert {("t", 0): "a", ("t", 1): "a"} == assigned.by_partition


@pytest.mark.parametrize("name", NAMES)
def test_a_group_without_partitions_gets_none(name):
    assigned = balance.get(name)({}, [Subscription("a", topics=["t"], owned=[("t", 0)], generation=1)])
    assert ({"a": ()}, {}, {}) == (assigned.by_member, assigned.by_partition, assigned.withheld)


@pytest.mark.parametrize("name", NAMES)
def test_racks_may_be_missing_on_some_and_say_more_than_is_asked(name):
    members = [MEMBER, Subscription("b", topics=["t"])]
    racks = {("t", 0): ["r2"], ("t", 1): [], ("other", 0): ["r1"]}
    assert 3 == len(balance.get(name)({"t": 3}, members, racks=racks).by_partition)
