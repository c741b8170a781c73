"""The plug-ins for Python's Kafka clients, without a broker: their messages, and their reading of messages."""

import importlib

import pytest
from hypothesis import example, settings
from hypothesis import given as given_data
from hypothesis import strategies as st

from apportion import balance
from apportion.balance.kafka import Remembered, Subscription, encode_sticky
from apportion.balance.kafka.plugins import aiokafka, kafka_python, wire
from apportion.balance.kafka.plugins.wire import Past
from apportion.errors import InvalidInput
from tests.balance.kafka.plugin_group import Cluster, Group, Member
from tests.balance.wire_reader import Reader, read_assignment, read_subscription


def damaged(place, put):
    """Return user data of our cooperative members, with these bytes in place of others."""
    past = Past(owned=(("t", 1),), generation=7, member_id="m1", is_held=True)
    data = wire.cooperative_data(past)
    return data[:place] + put + data[place + len(put) :]


CLIENTS = pytest.mark.parametrize("client", [kafka_python, aiokafka], ids=["kafka-python", "aiokafka"])


@CLIENTS
@pytest.mark.parametrize("kind", ["Range", "RoundRobin", "Sticky", "Cooperative"])
def test_every_partition_has_one_owner(client, kind):
    group = Group(client, kind, {"t": 7, "u": 5})
    group.join("a", "b", "c")
    owned = group.rebalance("b")
    assert {("t", n) for n in range(7)} | {("u", n) for n in range(5)} == set.union(*owned.values())
    assert 12 == sum(map(len, owned.values()))


@CLIENTS
def test_sticky_members_get_back_what_they_had_whoever_leads(client):
    group = Group(client, "Sticky", {"t": 12})
    group.join("a", "b", "c")
    three = group.rebalance("a")
    del group.assignors["b"]
    two = group.rebalance("c")
    assert three["a"] < two["a"]
    assert three["c"] < two["c"]
    group.join("d")
    again = group.rebalance("d")
    assert {4} == {len(owned) for owned in again.values()}
    assert again["a"] < two["a"]
    assert again["c"] < two["c"]


@CLIENTS
def test_a_member_that_slept_through_a_generation_gives_way(client):
    group = Group(client, "Sticky", {"t": 4})
    group.join("a", "b")
    group.rebalance("a")
    sleeper = group.assignors.pop("a")
    alone = group.rebalance("b")
    group.assignors["a"] = sleeper
    group.join("c")
    after = group.rebalance("b")
    assert after["b"] < alone["b"]
    told = [read_subscription(each.metadata(["t"])).user_data for each in group.assignors.values()]
    assert 1 == len({wire.sticky_past(user_data).generation for user_data in told})


@CLIENTS
def test_two_consumers_of_one_process_share_no_state(client):
    group = Group(client, "Sticky", {"t": 4})
    group.join("a", "b")
    owned = group.rebalance("a")
    for name, assignor in group.assignors.items():
        told = wire.sticky_past(read_subscription(assignor.metadata(["t"])).user_data)
        assert owned[name] == set(told.owned)


def test_a_cooperative_round_waits_for_who_holds_a_partition():
    group = Group(kafka_python, "Cooperative", {"t": 6})
    group.join("a", "b")
    before = group.rebalance("a")
    group.join("c")
    first = group.rebalance("b")
    assert (set(), 2, 2) == (first["c"], len(first["a"]), len(first["b"]))
    second = group.rebalance("b")
    assert first["a"] == second["a"] < before["a"]
    assert first["b"] == second["b"] < before["b"]
    assert 2 == len(second["c"])


def test_a_cooperative_member_that_lost_its_session_is_waited_for_by_nobody():
    group = Group(kafka_python, "Cooperative", {"t": 6})
    group.join("a", "b")
    before = group.rebalance("a")
    group.join("c")
    after = group.rebalance("c", ids={"a": "a2", "b": "b2", "c": "c"})
    assert {2} == {len(owned) for owned in after.values()}
    assert after["a"] < before["a"]
    assert after["b"] < before["b"]


def test_a_cooperative_member_claims_nothing_of_a_topic_that_it_no_longer_wants():
    cluster, a, b = Cluster({"t": 2, "u": 2}), kafka_python.Cooperative(), kafka_python.Cooperative()
    alone = a.assign(cluster, [Member("a", read_subscription(a.metadata(["t", "u"])))])
    a.on_assignment(read_assignment(alone["a"]), 1)
    said = [
        Member("a", read_subscription(a.metadata(iter(["t"])))),
        Member("b", read_subscription(b.metadata(["u"]))),
    ]
    given = a.assign(cluster, said)
    assert {("t", 0), ("t", 1)} == set(read_assignment(given["a"]).partitions())
    assert {("u", 0), ("u", 1)} == set(read_assignment(given["b"]).partitions())


def test_aiokafka_lets_go_before_it_joins_so_that_nobody_waits_for_it():
    group = Group(aiokafka, "Cooperative", {"t": 6})
    group.join("a", "b")
    before = group.rebalance("a")
    group.join("c")
    after = group.rebalance("b")
    assert {2} == {len(owned) for owned in after.values()}
    assert after["a"] < before["a"]
    said = read_subscription(group.assignors["a"].metadata(["t"]))
    assert [] == said.owned_partitions


def test_what_aiokafka_remembers_never_stands_against_what_another_holds():
    held = Past(owned=(("t", 0), ("t", 1)), generation=5, member_id="k", is_held=True)
    claims = Past(owned=(("t", 0), ("t", 1)), generation=9, member_id="i")
    said = {
        "k": read_subscription(wire.owning_subscription(["t"], held)),
        "i": read_subscription(wire.owning_subscription(["t"], claims)),
    }
    given = aiokafka.Cooperative().assign(Cluster({"t": 2}), said)
    assert [1, 0] == [len(list(read_assignment(given[name]).partitions())) for name in "ki"]


def test_aiokafka_refuses_to_lead_cooperative_members_whose_holdings_it_cannot_see():
    said = {"java": read_subscription(wire.subscription(["t"], (3).to_bytes(4)))}
    with pytest.raises(InvalidInput, match="'java', expected a member with one of apportion's"):
        aiokafka.Cooperative().assign(Cluster({"t": 2}), said)


def test_kafka_python_leads_cooperative_members_that_are_not_ours():
    java = read_subscription(
        wire.owning_subscription(["t"], Past(owned=(("t", 0), ("t", 1)), generation=3, is_held=True))
    )
    java.user_data = (3).to_bytes(4)
    members = [Member("java", java), Member("new", read_subscription(kafka_python.Cooperative().metadata(["t"])))]
    given = kafka_python.Cooperative().assign(Cluster({"t": 2}), members)
    assert [1, 0] == [len(list(read_assignment(given[name]).partitions())) for name in ("java", "new")]


@CLIENTS
@pytest.mark.parametrize("user_data", [None, b"", b"\xff", b"from the future, or from nowhere", b"\x00\x00\x00\x09"])
def test_user_data_that_cannot_be_read_is_no_past(client, user_data):
    said = read_subscription(wire.subscription(["t"], b""))
    said.user_data = user_data
    members = {"a": said} if client is aiokafka else [Member("a", said)]
    given = client.Sticky().assign(Cluster({"t": 2}), members)
    assert 2 == len(list(read_assignment(given["a"]).partitions()))


@CLIENTS
@pytest.mark.parametrize("kind", ["Sticky", "Cooperative"])
@settings(max_examples=60)
@given_data(user_data=st.binary(max_size=60) | st.builds(damaged, st.integers(0, 80), st.binary(max_size=3)))
@example(user_data=damaged(4, b"\1\x80\0") + b"i" * 2**15)
@example(user_data=damaged(7, b"\xff"))
@example(user_data=damaged(15, b"\x7f\xff" + b"\xff" * 2**15))
def test_no_user_data_ends_a_leader(client, kind, user_data):
    said = read_subscription(wire.owning_subscription(["t"], Past()))
    said.user_data = user_data
    assignor = getattr(client, kind)()
    members = {"a": said} if client is aiokafka else [Member("a", said)]
    if (aiokafka, "Cooperative") == (client, kind) and wire.cooperative_past(user_data) is None:
        with pytest.raises(InvalidInput, match="expected a member with one of apportion's assignors"):
            assignor.assign(Cluster({"t": 2}), members)
        return
    given = assignor.assign(Cluster({"t": 2}), members)
    assert {("t", 0), ("t", 1)} == set(read_assignment(given["a"]).partitions())


def test_members_of_kafka_python_write_as_java_does_beside_java():
    group = Group(kafka_python, "Sticky", {"t": 6})
    group.join("a", "b")
    group.rebalance("a")
    alone = read_subscription(group.assignors["a"].metadata(["t"])).user_data
    assert (3, b"\0\1") == (len(wire.sticky_past(alone).owned), alone[:2])
    java = read_subscription(wire.subscription(["t"], b""))
    java.user_data = None
    said = [Member(name, read_subscription(each.metadata(["t"]))) for name, each in group.assignors.items()]
    told = read_assignment(group.assignors["b"].assign(Cluster({"t": 6}), [*said, Member("java", java)])["a"])
    group.assignors["a"].on_assignment(told, 2)
    beside = read_subscription(group.assignors["a"].metadata(["t"])).user_data
    assert encode_sticky(Remembered(owned=tuple(told.partitions()), generation=2)) == beside
    told.user_data = None
    group.assignors["b"].on_assignment(told, 3)
    led = read_subscription(group.assignors["b"].metadata(["t"])).user_data
    assert encode_sticky(Remembered(owned=tuple(told.partitions()), generation=3)) == led


@CLIENTS
def test_topics_that_nobody_knows_are_left_out(client):
    said = read_subscription(client.Sticky().metadata(["gone", "t"]))
    members = {"a": said} if client is aiokafka else [Member("a", said)]
    given = client.Sticky().assign(Cluster({"t": 2}), members)
    assert {("t", 0), ("t", 1)} == set(read_assignment(given["a"]).partitions())


def test_a_topic_that_nobody_knows_still_makes_wishes_unequal_as_in_java():
    owned = {"c0": (("t", 1), ("t", 3), ("t", 4)), "c1": (("t", 0),), "c2": (), "c3": ()}
    wanted = {"c0": ["ghost", "t"], "c1": ["t"], "c2": ["t"], "c3": ["t"]}
    members = [Subscription(name, topics=wanted[name], owned=owned[name], generation=1) for name in owned]
    expected = balance.get("kafka.sticky")({"t": 6}, members).by_member
    said = {}
    for name, partitions in owned.items():
        data = encode_sticky(Remembered(owned=partitions, generation=1))
        said[name] = read_subscription(wire.subscription(wanted[name], data))
    given = aiokafka.Sticky().assign(Cluster({"t": 6}), said)
    assert expected == {name: tuple(read_assignment(data).partitions()) for name, data in given.items()}


def test_static_members_of_kafka_python_keep_their_order():
    said = read_subscription(kafka_python.Range().metadata(["t"]))
    members = [Member("z", said, group_instance_id="1"), Member("a", said), Member("y", said, group_instance_id="2")]
    given = kafka_python.Range().assign(Cluster({"t": 3}), members)
    assert [("t", 0)] == list(read_assignment(given["z"]).partitions())
    assert [("t", 1)] == list(read_assignment(given["y"]).partitions())
    assert [("t", 2)] == list(read_assignment(given["a"]).partitions())


def test_the_generation_carried_never_overflows():
    past = Past(owned=(("t", 0),), generation=2**31 - 1)
    said = read_subscription(wire.subscription(["t"], wire.sticky_data(past)))
    given = read_assignment(aiokafka.Sticky().assign(Cluster({"t": 1}), {"a": said})["a"])
    assert 2**31 - 1 == Reader(given.user_data).int32()


def test_neither_client_is_imported():
    for name in ("kafka_python", "aiokafka", "wire", "leader"):
        module = importlib.import_module(f"apportion.balance.kafka.plugins.{name}")
        assert not {"kafka", "aiokafka"} & {getattr(each, "__name__", "") for each in vars(module).values()}


def test_kafka_python_reads_our_bytes():
    metadata = pytest.importorskip(
        "kafka.protocol.consumer.metadata", reason="no kafka-python: pip install kafka-python"
    )
    past = Past(owned=(("t", 1), ("t", 0), ("ü", 2)), generation=7, member_id="m", is_held=True)
    said = metadata.ConsumerProtocolSubscription.decode(wire.owning_subscription(["ü", "t"], past))
    assert (["t", "ü"], 7) == (said.topics, said.generation_id)
    assert [("t", [0, 1]), ("ü", [2])] == [(each.topic, list(each.partitions)) for each in said.owned_partitions]
    assert past.owned[2:] == wire.cooperative_past(said.user_data).owned[2:]
    data = wire.assignment(past.owned, generation=7, is_beside_java=True, member_id="m")
    given = metadata.ConsumerProtocolAssignment.decode(data)
    assert sorted(past.owned) == sorted(given.partitions())


def test_aiokafka_reads_our_bytes():
    protocol = pytest.importorskip("aiokafka.coordinator.protocol", reason="no aiokafka: pip install aiokafka")
    past = Past(owned=(("t", 1), ("t", 0)), generation=7, member_id="m", is_held=True)
    for each in (wire.owning_subscription(["t"], past), wire.subscription(["t"], b"x")):
        assert ["t"] == protocol.ConsumerProtocolMemberMetadata.decode(each).subscription
    data = wire.assignment(past.owned, generation=7, is_beside_java=True, member_id="m")
    given = protocol.ConsumerProtocolMemberAssignment.decode(data)
    assert sorted(past.owned) == sorted(given.partitions())
    assert ("m", 7) == (wire.given((), given.user_data).member_id, wire.given((), given.user_data).generation)
