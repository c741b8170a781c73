"""Groups hold every key once, at the node that handles it, in the order it was passed."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Jump, Ring, Topology, group_keys, group_places
from apportion.errors import InvalidInput
from tests import worlds
from tests.native.comparing import answered_by_the_twin


@given(worlds.owning_topologies, st.lists(worlds.keys, max_size=60))
def test_each_key_stands_with_its_node_in_order(topology, keys):
    ring = Ring(topology, vnodes=3)
    with answered_by_the_twin(4 * len(keys)):  # each is routed and then grouped, twice
        places, grouped = group_places(ring, keys), group_keys(ring, keys)
    assert sorted(place for group in places.values() for place in group) == list(range(len(keys)))
    assert {node_id: [keys[place] for place in group] for node_id, group in places.items()} == grouped
    assert all(list(group) == sorted(group) for group in places.values())
    assert all(node_id == ring.route(key) for node_id, group in grouped.items() for key in group)
    assert sorted(grouped) == list(grouped)


def test_nodes_without_a_key_are_not_there_and_a_generator_is_read_once():
    assert {} == group_keys(Ring(["a", "b"]), [])
    assert {"a": [0, 1, 2]} == group_keys(Jump(["a"]), iter(range(3)))


def test_a_single_key_is_refused():
    with pytest.raises(InvalidInput, match="keys is"):
        group_keys(Ring(["a"]), "tenant")
    with pytest.raises(InvalidInput, match="keys is"):
        group_places(Ring(["a"]), b"tenant")


class Foreign:
    """A placement of somebody else's, whose indexes are a list, or of another kind of array, or beyond its nodes."""

    def __init__(self, indexes):
        self.topology, self.indexes = Topology(["a", "b"]), indexes

    def route_indexes(self, keys, *, threads=1):
        return self.indexes


@pytest.mark.parametrize("indexes", [[1, 0, 1], array("L", [1, 0, 1]), array("H", [1, 0, 1])])
def test_indexes_of_any_kind_are_grouped(indexes):
    with answered_by_the_twin(3):
        assert {"a": array("Q", [1]), "b": array("Q", [0, 2])} == group_places(Foreign(indexes), "xyz")


def test_an_index_beyond_the_nodes_is_an_error():
    with pytest.raises(IndexError):
        group_places(Foreign(array("H", [7])), ["x"])


@pytest.mark.parametrize("group", [group_keys, group_places])
def test_what_is_no_placement_is_refused(group):
    with pytest.raises(InvalidInput, match="placement is"):
        group(None, ["k"])
