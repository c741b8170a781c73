"""Groups hold every key once, at the node that handles it, in the order it was passed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Jump, Ring, group_keys, group_places
from apportion.errors import InvalidInput
from tests import worlds


@given(worlds.owning_topologies, st.lists(worlds.keys, max_size=60))
def test_each_key_stands_with_its_node_in_order(topology, keys):
    ring = Ring(topology, vnodes=3)
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
