"""States by preference lists: what Helix gives, and that no partition has less than before while it moves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.balance.helix import model_of, states
from apportion.errors import InvalidInput, UnknownOption
from tests.balance.helix.clusters import MODELS

NODES = list("abcdef")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("MasterSlave", {"c": "MASTER", "a": "SLAVE", "b": "SLAVE"}),
        ("LeaderStandby", {"c": "LEADER", "a": "STANDBY", "b": "STANDBY"}),
        ("OnlineOffline", {"c": "ONLINE", "a": "ONLINE", "b": "ONLINE"}),
    ],
)
def test_a_first_placement_has_the_states_of_its_model(model, expected):
    assert expected == states(["c", "a", "b"], live=NODES, model=model)


def test_who_is_not_live_gets_no_state_and_the_next_one_leads():
    assert {"a": "MASTER", "b": "SLAVE"} == states(["c", "a", "b"], live=["a", "b"])


def test_the_leader_stays_until_the_one_that_is_to_lead_has_its_copy():
    before = {"a": "MASTER", "b": "SLAVE"}
    assert "MASTER" == states(["c", "b"], live=NODES, current=before)["a"]
    assert "MASTER" == states(["c", "b"], live=NODES, current={**before, "c": "SLAVE"})["c"]


def test_a_replica_in_error_stays_so_and_holds_what_is_beyond_the_list():
    current = {"a": "ERROR", "b": "SLAVE", "c": "MASTER", "d": "SLAVE"}
    assert {"a": "ERROR", "b": "SLAVE", "c": "MASTER", "d": "SLAVE"} == states(
        ["a", "b", "c"], live=NODES, current=current
    )


def test_a_replica_in_error_does_not_lead():
    assert {"a": "ERROR", "b": "MASTER"} == states(["a", "b"], live=NODES, current={"a": "ERROR"})


def test_an_empty_list_drops_everything():
    assert {"a": "DROPPED", "b": "DROPPED"} == states([], live=NODES, current={"a": "MASTER", "b": "SLAVE"})


def test_a_listed_node_that_is_down_holds_what_is_beyond_the_list():
    # Helix waits for it: with a delayed rebalance it comes back.
    current = {"b": "MASTER", "c": "SLAVE"}
    assert {"b": "MASTER", "c": "SLAVE"} == states(["a", "b"], live=["b", "c"], current=current)


def test_of_those_that_go_the_one_in_the_crowded_zone_goes_first():
    current = {"a": "MASTER", "b": "SLAVE", "c": "SLAVE", "d": "SLAVE"}
    zones = {"a": "z1", "b": "z2", "c": "z1", "d": "z3"}
    found = states(["a", "d", "b"], live=NODES, current=current, zones=zones)
    assert ["c"] == [node for node, state in found.items() if state == "DROPPED"]
    crowded = {"b": "SLAVE", "c": "SLAVE", "e": "MASTER"}
    zones = {"e": "z1", "b": "z1", "c": "z2"}
    target = states(["c"], live=NODES, current=crowded | {"c": "MASTER", "e": "SLAVE"}, zones=zones)
    assert {"c": "MASTER", "b": "DROPPED", "e": "DROPPED"} == target


def test_who_is_switched_off_goes_offline_and_the_next_one_leads():
    current = {"a": "MASTER", "b": "SLAVE"}
    assert {"a": "OFFLINE", "b": "MASTER"} == states(["a", "b"], live=NODES, current=current, disabled=["a"])
    assert {"a": "ERROR", "b": "OFFLINE"} == states(["a", "b"], live=NODES, current={"a": "ERROR"}, disabled=iter("ab"))
    # Who is down and has no replica is asked for nothing.
    assert {"b": "MASTER"} == states(["a", "b"], live=["b"], disabled=["a"])


def test_who_is_coming_counts_as_there_and_is_the_first_of_its_equals_to_go():
    assert {"c": "SLAVE", "b": "SLAVE", "a": "MASTER"} == states(
        ["c", "b"], live=NODES, current={"a": "MASTER", "b": "SLAVE"}, coming=["c"]
    )
    current = {"a": "MASTER", "e": "OFFLINE"}
    assert {"a": "MASTER", "e": "DROPPED", "d": "DROPPED"} == states(["a"], live=NODES, current=current, coming=["d"])
    current = {"a": "MASTER", "c": "OFFLINE", "e": "OFFLINE"}
    first = states(["a", "f", "b"], live=NODES, current=current, coming=["d"])
    assert {"a": "MASTER", "c": "SLAVE", "e": "SLAVE", "d": "DROPPED"} == first


@pytest.mark.parametrize("text", ["abc", b"abc", 3])
def test_a_text_is_no_ids(text):
    with pytest.raises(InvalidInput, match="preference list is"):
        states(text, live=NODES)
    with pytest.raises(InvalidInput, match="live is"):
        states(["a"], live=text)
    with pytest.raises(InvalidInput, match="disabled is"):
        states(["a"], live=NODES, disabled=text)
    with pytest.raises(InvalidInput, match="coming is"):
        states(["a"], live=NODES, coming=text)


def test_who_is_live_may_come_from_an_iterator():
    assert {"b": "MASTER", "a": "SLAVE"} == states(["b", "a"], live=iter("ab"))


def test_bad_input_is_refused():
    with pytest.raises(InvalidInput, match="preference list"):
        states(["a", "a"], live=NODES)
    with pytest.raises(UnknownOption, match="state of MasterSlave is 'LEADER'"):
        states(["a"], live=NODES, current={"a": "LEADER"})
    with pytest.raises(UnknownOption, match="model"):
        states(["a"], live=NODES, model="Task")


@st.composite
def partitions(draw):
    """Draw a model, a list and the current states of one partition, of which one leads at most."""
    model = model_of(draw(st.sampled_from(MODELS)))
    listed = draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=3, unique=True))
    holders = draw(st.lists(st.sampled_from(NODES), max_size=4, unique=True))
    current = {node: draw(st.sampled_from([model.rest, "OFFLINE"])) for node in holders}
    if holders and model.has_leader and draw(st.booleans()):
        current[holders[0]] = model.top
    return model, listed, current


@given(partitions(), st.data())
def test_a_partition_that_moves_never_serves_less_than_before_and_arrives(partition, data):
    model, listed, current = partition
    serving = sum(state in model.serving for state in current.values())
    for _ in range(60):
        target = states(listed, live=NODES, current=current, model=model.name)
        assert not model.has_leader or list(target.values()).count(model.top) <= 1
        led = model.has_leader and model.top in current.values()
        steps = {node: model.step(current.get(node, "OFFLINE"), state) for node, state in target.items()}
        steps = {
            node: step
            for node, step in steps.items()
            if step != current.get(node) and not (led and step == model.top and model.has_leader)
        }
        if not steps:
            break
        node = data.draw(st.sampled_from(sorted(steps)))
        current[node] = steps[node]
        current = {node: state for node, state in current.items() if state != "DROPPED"}
        now = sum(state in model.serving for state in current.values())
        assert now >= min(serving, len(listed))
        serving = now
    assert {node: model.state_at(place) for place, node in enumerate(listed)} == current or (
        {*listed} == {*current} and model.counts(len(listed)) == _counted(current)
    )


def _counted(current):
    return {state: [*current.values()].count(state) for state in sorted({*current.values()}, key=_top_first)}


def _top_first(state):
    return ["MASTER", "LEADER", "ONLINE", "SLAVE", "STANDBY"].index(state)
