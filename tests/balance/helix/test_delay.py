"""Delayed rebalance: who counts as active, and lists that never have fewer live nodes than agreed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Topology
from apportion.balance.helix import Delay, crushed, delayed
from apportion.errors import InvalidInput

NODES = list("abcdef")


def test_a_node_is_waited_for_until_its_delay_is_over():
    delay, down = Delay(60), {"b": 100.0}
    for now, expected in ((100, {"a", "b"}), (159.9, {"a", "b"}), (160, {"a"}), (1000, {"a"})):
        assert expected == delay.active(live=["a"], down_since=down, now=now)
    assert 160 == delay.next_at(down, now=100)
    assert delay.next_at(down, now=160) is None


def test_some_are_not_waited_for():
    down = {"b": 100.0, "c": 100.0}
    assert {"a", "c"} == Delay(60, exempt={"b"}).active(live=["a"], down_since=down, now=110)
    assert {"a"} == Delay(0).active(live=["a"], down_since=down, now=110)


def test_a_rebalance_asked_for_ends_the_waiting_for_what_was_down_before_it():
    down = {"b": 100.0, "c": 120.0}
    assert {"a", "c"} == Delay(60, ended_at=110.0).active(live=["a"], down_since=down, now=130)


def test_who_is_not_waited_for_is_inactive_also_when_its_clock_is_ahead():
    down = {"b": 110.0}
    for delay in (Delay(0), Delay(60, exempt={"b"}), Delay(60, ended_at=111.0)):
        assert {"a"} == delay.active(live=["a"], down_since=down, now=100)
        assert delay.next_at(down, now=100) is None
    assert {"a", "b"} == Delay(60).active(live=["a"], down_since=down, now=100)


lists = st.lists(st.sampled_from(NODES), min_size=1, max_size=4, unique=True).map(tuple)


@given(lists, lists, st.sets(st.sampled_from(NODES)), st.integers(0, 5))
def test_enough_live_nodes_stay_in_every_list(on_live, on_active, live, least):
    on_live = tuple(node for node in on_live if node in live)
    (kept,) = delayed({"0": on_live}, {"0": on_active}, live=live, replicas=4, least=least).values()
    assert len(live.intersection(kept)) >= min(least, len(on_live))
    assert len(kept) == len({*kept})
    if least < 4 and len(live.intersection(on_active)) >= least:
        assert on_active == kept
    if least >= 4:
        assert on_live == kept


def test_a_short_outage_moves_nothing_and_a_long_one_what_the_strategy_moves():
    topology, live = Topology(NODES), NODES[1:]
    home = crushed("orders", 60, 3, topology).preference_lists
    on_live = crushed("orders", 60, 3, topology, live=live).preference_lists
    delay, down = Delay(600), {"a": 1000.0}
    for now, expected in ((1100.0, home), (1700.0, on_live)):
        active = delay.active(live=live, down_since=down, now=now)
        on_active = crushed("orders", 60, 3, topology, live=active).preference_lists
        assert expected == delayed(on_live, on_active, live=live, replicas=3, least=2)


@pytest.mark.parametrize("seconds", [-1, float("nan"), "60", None, True])
def test_a_delay_is_a_number_of_seconds(seconds):
    with pytest.raises(InvalidInput, match="seconds of the delay"):
        Delay(seconds)


@pytest.mark.parametrize("text", ["abc", b"abc", 3])
def test_a_text_is_no_ids(text):
    with pytest.raises(InvalidInput, match="exempt of the delay is"):
        Delay(1, exempt=text)
    with pytest.raises(InvalidInput, match="live is"):
        Delay(1).active(live=text, down_since={}, now=0)
    with pytest.raises(InvalidInput, match="live is"):
        delayed({}, {}, live=text, replicas=2, least=1)
    for lists in (({"0": text}, {"0": ("a",)}), ({"0": ("a",)}, {"0": text})):
        for least in (1, 2):
            with pytest.raises(InvalidInput, match="preference list of '0' is"):
                delayed(*lists, live=["a"], replicas=2, least=least)


def test_bad_input_is_refused():
    with pytest.raises(InvalidInput, match="now"):
        Delay(1).active(live=[], down_since={}, now=float("inf"))
    with pytest.raises(InvalidInput, match="time since which 'b' is down"):
        Delay(1).active(live=[], down_since={"b": None}, now=0)
    with pytest.raises(InvalidInput, match="partition is '1'"):
        delayed({"0": ("a",)}, {"0": ("a",), "1": ("a",)}, live=["a"], replicas=1, least=0)
    with pytest.raises(InvalidInput, match="least is -1"):
        delayed({}, {}, live=[], replicas=1, least=-1)
