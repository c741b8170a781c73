"""Throttling: no limit is ever exceeded, the urgent comes first, and everything arrives nevertheless."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.balance.helix import Limit, StateTransition, Wanted, admitted, model_of, states
from apportion.errors import InvalidInput, UnknownOption
from tests.balance.helix.clusters import MODELS

NODES = list("abcde")
SCOPES, KINDS = ["cluster", "resource", "node"], ["recovery", "load", "any"]
limits = st.lists(
    st.builds(Limit, scope=st.sampled_from(SCOPES), kind=st.sampled_from(KINDS), most=st.integers(1, 3)),
    unique_by=lambda limit: (limit.scope, limit.kind),
)


def is_recovery(change, resource, now, live):
    """Say by Helix's rule whether a change brings a state that is missing, the slow way."""
    listed = resource.lists[change.partition]
    model = model_of(resource.model)
    needed = len(listed) if resource.least is None else max(resource.least, model.has_leader)
    there = [node for node in listed if node in live]
    wanted = model.counts(min(needed, len(there))).get(change.target, 0)
    return sum(state == change.target for state in now.values()) < wanted


def charged(changes, resources, live):
    """Count the changes that take room, by scope, name and kind; states change as changes are taken in their order."""
    used, by_name = Counter(), {resource.resource: resource for resource in resources}
    now = {each.resource: {name: dict(states) for name, states in each.current.items()} for each in resources}
    for change, is_new in changes:
        states_now = now[change.resource].setdefault(change.partition, {})
        kind = "recovery" if is_recovery(change, by_name[change.resource], states_now, live) else "load"
        for scope, name in (("cluster", ""), ("resource", change.resource), ("node", change.node)):
            used.update([(scope, name, kind), (scope, name, "any")])
        if is_new:
            states_now[change.node] = change.target
    return used


@st.composite
def resources(draw):
    """Draw up to two resources with lists and current states."""
    found = []
    for number in range(draw(st.integers(1, 2))):
        model = model_of(draw(st.sampled_from(MODELS)))
        lists, current = {}, {}
        for partition in map(str, range(draw(st.integers(1, 3)))):
            lists[partition] = tuple(draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True)))
            holders = draw(st.lists(st.sampled_from(NODES), max_size=3, unique=True))
            current[partition] = {
                node: model.top if place == 0 and model.has_leader else model.rest for place, node in enumerate(holders)
            }
        least = draw(st.none() | st.integers(0, 3))
        found.append((f"r{number}", model, lists, current, least))
    return found


def wanted(drawn, under_way):
    """Return the changes that each resource wants now."""
    return [
        Wanted(
            resource=name,
            model=model.name,
            current=current,
            lists=lists,
            least=least,
            under_way=tuple(change for change in under_way if change.resource == name),
            target={
                partition: states(lists[partition], live=NODES, current=current[partition], model=model.name)
                for partition in lists
            },
        )
        for name, model, lists, current, least in drawn
    ]


@given(resources(), limits, st.data())
def test_no_limit_is_exceeded_and_everything_arrives(drawn, limits, data):
    under_way = []
    for _ in range(200):
        asked = wanted(drawn, under_way)
        new = admitted(asked, limits=limits, live=NODES)
        used = charged([(each, False) for each in under_way] + [(each, True) for each in new], asked, NODES)
        before = charged([(each, False) for each in under_way], asked, NODES)
        for limit in limits:
            for (scope, name, kind), count in used.items():
                # A change under way may be of another kind by now; nothing more is admitted then.
                if (scope, kind) == (limit.scope, limit.kind):
                    assert count <= max(limit.most, before[scope, name, kind])
        for _, model, lists, current, _ in drawn:
            for partition in lists if model.has_leader else ():
                assert [*current[partition].values()].count(model.top) <= 1
        for change in new:
            _current(drawn, change).setdefault(change.node, "OFFLINE")
        under_way += new
        if not under_way:
            break
        done = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
        _current(drawn, done)[done.node] = done.target
        if done.target == "DROPPED":
            del _current(drawn, done)[done.node]
    for _, model, lists, current, _ in drawn:
        for partition, listed in lists.items():
            assert {*listed} == {*current[partition]}
            assert model.counts(len(listed)) == Counter(current[partition].values())


def _current(drawn, change):
    return next(current for name, _, _, current, _ in drawn if name == change.resource)[change.partition]


def one(resource="orders", **changed):
    """Return a resource of three partitions on three nodes, of which the first has no leader and the last is whole."""
    given = {
        "current": {
            "0": {"b": "SLAVE", "c": "SLAVE"},
            "1": {"a": "MASTER"},
            "2": {"a": "MASTER", "b": "SLAVE", "c": "SLAVE"},
        },
        "lists": dict.fromkeys("012", ("a", "b", "c")),
        "target": {name: {"a": "MASTER", "b": "SLAVE", "c": "SLAVE"} for name in "012"},
    }
    return Wanted(resource=resource, **given | changed)


def shown(changes):
    """Return changes in one line each."""
    return [f"{each.partition} {each.node} {each.source}->{each.target}" for each in changes]


def test_partitions_without_a_leader_come_first_then_those_that_lack_most():
    changes = admitted([one()], limits=[], live=NODES)
    assert ["0 a OFFLINE->SLAVE", "1 b OFFLINE->SLAVE", "1 c OFFLINE->SLAVE"] == shown(changes)
    assert ["0 a OFFLINE->SLAVE"] == shown(
        admitted([one()], limits=[Limit(scope="cluster", kind="any", most=1)], live=NODES)
    )


def test_limits_of_one_kind_leave_the_other_alone():
    # Two slaves are needed and there: a third is load. Partition 1 lacks both: recovery.
    no_load = admitted([one()], limits=[Limit(scope="cluster", kind="load", most=0)], live=NODES)
    assert ["1 b OFFLINE->SLAVE", "1 c OFFLINE->SLAVE"] == shown(no_load)
    no_recovery = admitted([one()], limits=[Limit(scope="cluster", kind="recovery", most=0)], live=NODES)
    assert ["0 a OFFLINE->SLAVE"] == shown(no_recovery)


def test_least_says_what_is_recovery():
    limit = [Limit(scope="cluster", kind="recovery", most=0)]
    assert ["0 a OFFLINE->SLAVE", "1 c OFFLINE->SLAVE"][:1] == shown(admitted([one()], limits=limit, live=NODES))
    changes = admitted([one(least=1)], limits=limit, live=NODES)
    assert ["0 a OFFLINE->SLAVE", "1 b OFFLINE->SLAVE", "1 c OFFLINE->SLAVE"] == shown(changes)


def test_each_resource_and_each_node_has_room_of_its_own():
    two = [one("orders"), one("users")]
    by_resource = admitted(two, limits=[Limit(scope="resource", kind="any", most=1)], live=NODES)
    assert ["orders", "users"] == [change.resource for change in by_resource]
    by_node = admitted(two, limits=[Limit(scope="node", kind="any", most=1)], live=NODES)
    assert {"a": 1, "b": 1, "c": 1} == Counter(change.node for change in by_node)


def test_what_is_under_way_takes_room_first_also_of_a_later_resource():
    change = StateTransition(resource="users", partition="1", node="b", source="OFFLINE", target="SLAVE")
    asked = [one("orders"), one("users", under_way=[change])]
    limit = [Limit(scope="cluster", kind="any", most=1)]
    assert [] == shown(admitted(asked, limits=limit, live=NODES))


def test_no_second_leader_is_admitted():
    current = {"0": {"a": "SLAVE", "b": "MASTER"}}
    target = {"0": {"a": "MASTER", "b": "SLAVE"}}
    swap = one(current=current, target=target, lists={"0": ("a", "b")})
    assert ["0 b MASTER->SLAVE"] == shown(admitted([swap], limits=[], live=NODES))
    assert ["0 a SLAVE->MASTER"] == shown(admitted([swap], limits=[], live=["a"]))
    with pytest.raises(InvalidInput, match="one MASTER per partition"):
        admitted([one(target={"0": {"a": "MASTER", "b": "MASTER"}})], limits=[], live=NODES)


def test_with_many_errors_load_only_goes_down():
    current = {name: {"a": "ERROR", "b": "MASTER", "d": "SLAVE"} for name in "01"}
    target = {name: {"a": "ERROR", "b": "MASTER", "c": "SLAVE", "d": "DROPPED"} for name in "01"}
    asked = one(current=current, target=target, lists=dict.fromkeys("01", ("b", "c")), least=1)
    down = ["0 d SLAVE->OFFLINE", "1 d SLAVE->OFFLINE"]
    assert down == shown(admitted([asked], limits=[], live=NODES))
    more = shown(admitted([asked], limits=[], live=NODES, most_errors=2))
    assert {*down, "0 c OFFLINE->SLAVE", "1 c OFFLINE->SLAVE"} == {*more}
    # A missing replica comes back all the same.
    lacking = one(current=current, target=target, lists=dict.fromkeys("01", ("b", "c", "d")))
    recovery = [line for line in shown(admitted([lacking], limits=[], live=NODES)) if "OFFLINE->SLAVE" in line]
    assert ["0 c OFFLINE->SLAVE", "1 c OFFLINE->SLAVE"] == recovery


def test_a_leader_is_needed_even_with_a_least_of_0():
    alone = one(current={}, lists={"0": ["a"]}, target={"0": {"a": "MASTER"}}, least=0)
    assert ["0 a OFFLINE->SLAVE"] == shown(admitted([alone], limits=[], live=NODES))
    promoted = replace(alone, current={"0": {"a": "SLAVE"}})
    for kind, expected in (("load", ["0 a SLAVE->MASTER"]), ("recovery", [])):
        limit = Limit(scope="cluster", kind=kind, most=0)
        assert expected == shown(admitted([promoted], limits=[limit], live=NODES))


def test_who_is_beyond_the_list_comes_by_its_name():
    # Helix compares the places of two that are listed, and names otherwise.
    states = {"c": "OFFLINE", "b": "OFFLINE", "a": "OFFLINE", "d": "MASTER"}
    asked = one(
        current={"0": states},
        lists={"0": ["d", "c", "b"]},
        target={"0": dict.fromkeys("abc", "SLAVE") | {"d": "MASTER"}},
    )
    found = shown(admitted([asked], limits=[], live=NODES))
    assert ["0 a OFFLINE->SLAVE", "0 c OFFLINE->SLAVE", "0 b OFFLINE->SLAVE"] == found


def test_no_way_leads_from_an_error_but_off_or_to_one():
    for current, target in (("ERROR", "SLAVE"), ("SLAVE", "ERROR"), ("DROPPED", "SLAVE")):
        stuck = one(current={"0": {"a": current}}, target={"0": {"a": target}})
        assert [] == shown(admitted([stuck], limits=[], live=NODES))
    reset = one(current={"0": {"a": "ERROR", "b": "ERROR"}}, target={"0": {"a": "OFFLINE", "b": "DROPPED"}})
    assert ["0 a ERROR->OFFLINE", "0 b ERROR->DROPPED"] == shown(admitted([reset], limits=[], live=NODES))


def test_a_replica_without_a_target_is_dropped_where_there_is_any_target():
    current = {"0": {"a": "MASTER", "b": "OFFLINE"}}
    assert ["0 b OFFLINE->DROPPED"] == shown(
        admitted([one(current=current, target={"0": {"a": "MASTER"}})], limits=[], live=NODES)
    )
    assert [] == shown(admitted([one(current=current, target={"0": {}})], limits=[], live=NODES))


def test_a_step_takes_room_while_its_node_is_in_the_state_that_it_starts_from():
    limit = [Limit(scope="node", kind="any", most=1)]
    other = one("users", current={}, lists={"0": ["b"]}, target={"0": {"b": "MASTER"}})
    for source, expected in (("OFFLINE", []), ("SLAVE", ["0 b OFFLINE->SLAVE"])):
        change = StateTransition(resource="orders", partition="1", node="b", source=source, target="MASTER")
        asked = [one(under_way=[change], target={"1": {"a": "MASTER"}}), other]
        assert expected == shown(each for each in admitted(asked, limits=limit, live=NODES) if each.resource == "users")


def test_on_a_node_that_is_switched_off_a_change_asks_no_room_of_the_node():
    limit = [Limit(scope="node", kind="any", most=0)]
    gone = {"target": {"1": {"a": "OFFLINE"}}}
    assert [] == shown(admitted([one(**gone)], limits=limit, live=NODES))
    assert ["1 a MASTER->SLAVE"] == shown(admitted([one(**gone)], limits=limit, live=NODES, disabled=["a"]))
    assert ["1 a MASTER->SLAVE"] == shown(admitted([one(**gone, disabled={"1": ["a"]})], limits=limit, live=NODES))


def test_bad_limits_are_refused():
    with pytest.raises(UnknownOption, match="scope of the limit"):
        Limit(scope="instance", kind="any", most=1)
    with pytest.raises(UnknownOption, match="kind of the limit"):
        Limit(scope="node", kind="all", most=1)
    with pytest.raises(InvalidInput, match="most of the limit"):
        Limit(scope="node", kind="any", most=-1)
    twice = [Limit(scope="node", kind="any", most=1), Limit(scope="node", kind="any", most=2)]
    with pytest.raises(InvalidInput, match="each scope and kind once"):
        admitted([], limits=twice, live=[])


UNDER_WAY = {"resource": "orders", "partition": "1", "node": "b", "source": "OFFLINE", "target": "SLAVE"}


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"resource": "users"}, "resource of a change under way is 'users'"),
        ({"source": "ONLINE"}, "state of MasterSlave is 'ONLINE'"),
        ({"target": None}, "state of MasterSlave is None"),
    ],
)
def test_what_is_under_way_is_of_its_resource_and_model(changed, text):
    assert 2 == len(admitted([one(under_way=[StateTransition(**UNDER_WAY)])], limits=[], live=NODES))
    with pytest.raises(InvalidInput, match=text):
        admitted([one(under_way=[StateTransition(**UNDER_WAY | changed)])], limits=[], live=NODES)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"wanted": [one(), one("users"), one()]}, "resource is 'orders', expected each once"),
        ({"wanted": "orders"}, "wanted is 'orders'"),
        ({"wanted": one()}, "wanted is"),
        ({"wanted": ["orders"]}, "item of wanted is 'orders'"),
        ({"wanted": [one(under_way=["a"])]}, "item of under_way of 'orders' is 'a'"),
        ({"wanted": [one(under_way="a")]}, "under_way of 'orders' is 'a'"),
        ({"wanted": [one(under_way=3)]}, "under_way of 'orders' is 3"),
        ({"wanted": [one(lists={"0": "abc"})]}, "preference list of '0' is 'abc'"),
        ({"live": "abc"}, "live is 'abc'"),
        ({"live": b"abc"}, "live is"),
        ({"disabled": "abc"}, "disabled is 'abc'"),
        ({"wanted": [one(disabled={"0": "abc"})]}, "disabled of '0' is 'abc'"),
        ({"limits": Limit(scope="node", kind="any", most=1)}, "limits is"),
        ({"limits": 3}, "limits is 3"),
        ({"limits": [("node", "any", 1)]}, "item of limits is"),
        ({"limits": None}, "limits is None"),
        ({"most_errors": -1}, "most_errors is -1"),
        ({"most_errors": "1"}, "most_errors is '1'"),
        ({"most_errors": True}, "most_errors is True"),
    ],
)
def test_what_cannot_be_meant_is_refused(changed, text):
    with pytest.raises(InvalidInput, match=text):
        admitted(**{"wanted": [one()], "limits": [], "live": NODES} | changed)
