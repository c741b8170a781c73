"""A value is in one list; its node handles it until another list has it; what is in no list has a default or nobody."""

import pickle
from types import MappingProxyType
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Node, Ring, Topology, plan
from apportion.errors import CannotPlace, InvalidInput, NotEnoughNodes, UnknownNode
from apportion.placement import lists as module
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.lists import SPEC, Lists
from tests import invariants, worlds

ABC = Topology(["a", "b", "c"])
VALUES = {"a": ["de", "fr"], "b": ["us"]}
LISTS = Lists(ABC, values=VALUES)
FEW = settings(max_examples=25)
values = st.one_of(worlds.keys, st.integers(-(2**63), 2**63 - 1))


def twin(pairs, key, default):
    """Return the node of the first pair whose value has the key's bytes, by looking at each."""
    return next((node_id for value, node_id in pairs if key_bytes(value) == key_bytes(key)), default)


@FEW
@given(
    st.lists(st.tuples(values, st.sampled_from("abc")), max_size=8, unique_by=lambda pair: key_bytes(pair[0])), values
)
def test_a_key_is_in_the_list_where_the_dumb_twin_finds_it(pairs, other):
    lists = Lists(
        ABC, values={owner: [value for value, each in pairs if each == owner] for owner in "abc"}, default="c"
    )
    asked = [*(value for value, _ in pairs), other]
    expected = [twin(pairs, key, "c") for key in asked]
    assert expected == lists.route_many(asked) == lists.route_many(iter(asked))
    assert expected == [ABC.ids[index] for index in lists.route_indexes(asked)]
    assert expected == [lists.preference(key, 1)[0] for key in asked]
    assert expected == [lists.explain(key).owner for key in asked]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"a": ["de"], "b": ["us", "de"]}, "'de', expected once, in one list; it is in that of 'a' and that of 'b'"),
        ({"a": ["de"], "b": [b"de"]}, "b'de', expected once, in one list; it is in that of 'a' and that of 'b'"),
        ({"a": ["de", "de"]}, "'de', expected once, in one list; it is in that of 'a' twice"),
        ({"a": [7], "b": [b"\7\0\0\0\0\0\0\0"]}, "it is in that of 'a' and that of 'b'"),
        ({"a": [UUID(int=0)], "b": [str(UUID(int=0))]}, "it is in that of 'a' and that of 'b'"),
    ],
)
def test_a_value_in_two_lists_is_refused_by_name(values, shown):
    with pytest.raises(InvalidInput, match="value is ") as caught:
        Lists(ABC, values=values)
    assert shown in str(caught.value)


def test_a_number_and_its_digits_are_two_values():
    assert ["a", "b"] == Lists(ABC, values={"a": [7], "b": ["7"]}).route_many([7, "7"])


def test_a_key_in_no_list_is_refused_with_the_way_out():
    for ask in (LISTS.route, LISTS.explain, lambda key: LISTS.preference(key, 1), lambda key: LISTS.route_many([key])):
        with pytest.raises(CannotPlace, match="'jp' is in no list, and there is no default") as caught:
            ask("jp")
        assert "default=" in caught.value.hint


def test_a_key_in_no_list_goes_to_the_default():
    lists = Lists(ABC, values=VALUES, default="c")
    assert ["a", "c", "c"] == lists.route_many(["de", "jp", 5])
    assert "in no list; c is the default" in lists.explain("jp").why


def test_lists_are_equal_when_their_answers_are():
    same = Lists(["c", "b", "a"], values=MappingProxyType({"c": [], "b": (b"us",), "a": {"fr": 1, "de": 2}}))
    assert (LISTS, hash(LISTS)) == (same, hash(same))
    assert (("a", (b"de", b"fr")), ("b", (b"us",))) == LISTS.values
    assert LISTS != Lists(ABC, values=VALUES, default="a")
    assert LISTS != Lists(ABC, values={"a": ["de"], "b": ["us", "fr"]})
    assert LISTS != Lists(ABC.add("d"), values=VALUES)


@pytest.mark.parametrize("change", [ABC.without("b"), ABC.drain("b")], ids=["without", "drain"])
def test_on_refuses_to_go_on_without_a_node_that_has_a_list(change):
    with pytest.raises(CannotPlace, match="b'us' would have no owner without 'b'") as caught:
        LISTS.on(change)
    assert "list of a node that stays" in caught.value.hint
    with pytest.raises(CannotPlace, match="b'de' and 1 more would have no owner without 'a'"):
        LISTS.on(ABC.without("a"))


def test_on_refuses_to_go_on_without_the_default():
    lists = Lists(ABC, values=VALUES, default="c")
    for topology in (ABC.without("c"), ABC.drain("c")):
        with pytest.raises(CannotPlace, match="'c', the default"):
            lists.on(topology)


def test_on_keeps_every_value_where_it_is_and_leaves_the_old_lists_alone():
    bigger = LISTS.on(ABC.add("aa").without("c"))
    assert ["a", "a", "b"] == bigger.route_many(["de", "fr", "us"]) == LISTS.route_many(["de", "fr", "us"])
    assert (("a", "aa", "b"), ABC) == (bigger.topology.ids, LISTS.topology)
    assert Lists(ABC.add("aa").without("c"), values=VALUES) == bigger


def test_only_what_is_put_into_another_list_moves():
    keys = ["de", "fr", "us"]
    change = plan(LISTS, Lists(ABC, values={"a": ["de"], "b": ["us"], "c": ["fr"]}), keys)
    assert [("fr", "a", "c")] == [(move.item, move.source, move.target) for move in change.moves]
    invariants.nothing_strays(plan(LISTS, LISTS.on(ABC.add("d")), keys))
    with pytest.raises(InvalidInput, match="Lists has no table"):
        plan(LISTS, LISTS)


def test_lists_have_no_table_and_name_nobody_second():
    assert None is LISTS.table()
    with pytest.raises(NotEnoughNodes, match="from Lists, which name one node for a value"):
        LISTS.preference("de", 2)
    with pytest.raises(NotEnoughNodes, match="on distinct nodes"):
        LISTS.table(4)
    with pytest.raises(InvalidInput, match="count of nodes"):
        LISTS.preference("de", 0)


def test_an_explanation_names_the_list():
    explained = LISTS.explain("de")
    assert ("lists", "exact-bytes", None, None) == (
        explained.placement,
        explained.hasher,
        explained.hash,
        explained.if_owner_left,
    )
    assert "the value is in the list of a; if the node left, the author of the lists would decide" == explained.why
    assert 7 == len(str(explained).splitlines())


@pytest.mark.parametrize(
    ("values", "error", "fault"),
    [
        (None, InvalidInput, "values is None, expected a mapping"),
        ([("a", ["de"])], InvalidInput, "values is a list, expected a mapping"),
        (Ring(ABC), InvalidInput, "values is a Ring"),
        ({"a": "de"}, InvalidInput, "values of 'a' is 'de', expected a list"),
        ({"a": b"de"}, InvalidInput, "values of 'a' is b'de'"),
        ({"a": 7}, InvalidInput, "values of 'a' is 7"),
        ({"a": [None]}, InvalidInput, "key is None"),
        ({"a": [1.5]}, InvalidInput, "key is 1.5"),
        ({"a": [True]}, InvalidInput, "key is True"),
        ({"a": [2**63]}, InvalidInput, "64 bits"),
        ({"a": ["\ud800"]}, InvalidInput, "surrogates"),
        ({"z": ["de"]}, UnknownNode, "node id is 'z'"),
        ({"z": []}, UnknownNode, "node id is 'z'"),
        ({5: ["de"]}, UnknownNode, "node id is 5"),
    ],
)
def test_what_makes_no_lists_is_refused(values, error, fault):
    with pytest.raises(error, match=fault):
        Lists(ABC, values=values)


def test_a_default_that_is_no_node_is_refused():
    with pytest.raises(UnknownNode, match="Did you mean 'db-eu'"):
        Lists(["db-eu", "db-us"], values={}, default="db-e")


def test_a_draining_node_has_no_list_and_is_no_default():
    drained = Topology(["a", Node("b", weight=0)])
    with pytest.raises(CannotPlace, match="a list is given to 'b', which drains"):
        Lists(drained, values=VALUES)
    with pytest.raises(CannotPlace, match="the default is given to 'b', which drains"):
        Lists(drained, values={}, default="b")


def test_too_many_values_are_refused_before_they_are_read(monkeypatch):
    monkeypatch.setattr(module, "MAX_VALUES", 3)
    assert 3 == len(Lists(ABC, values={"a": range(3)}).values[0][1])
    with pytest.raises(InvalidInput, match="at most MAX_VALUES = 3"):
        Lists(ABC, values={"a": iter(range(10**12))})


def test_lists_survive_pickling():
    for lists in (LISTS, Lists(ABC, values={"a": [7, UUID(int=9), b"\xff"]}, default="b")):
        back = pickle.loads(pickle.dumps(lists))
        assert (lists, hash(lists), repr(lists)) == (back, hash(back), repr(back))
        assert lists.values == back.values
    assert "Lists(3 values over Topology(3 nodes, no zones, epoch 1:618cb04a), default=None, exact-bytes)" == repr(
        LISTS
    )


def test_the_spec_says_what_lists_are():
    assert ("lists", Lists, "explicit", False) == (SPEC.name, SPEC.build, SPEC.takes, SPEC.tabular)
