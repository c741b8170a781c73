"""CRUSH and the circle in the twin are those of the reference: the same lists, the same tokens."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import native
from apportion.balance.helix.circle import reference_tokens
from apportion.balance.helix.crush import reference_lists
from apportion.balance.helix.draws import draw, reference_draw
from apportion.balance.helix.request import HelixRequest
from apportion.balance.helix.straws import Straws
from apportion.balance.helix.tree import Tree
from apportion.balance.java.values import reference_hash, string_hash
from tests.balance.helix.clusters import NAMES, clusters
from tests.native.comparing import answered_by_the_twin, needs_twin

pytestmark = needs_twin


def twin_lists(tree, partitions, replicas):
    """Return the lists of partitions by the twin."""
    zones = [(zone.straws, zone.nodes) for zone in tree.zones]
    with answered_by_the_twin(len(partitions)):
        found = native.extension.crush_lists(partitions, replicas, tree.straws, zones)
    return dict(zip(partitions, found, strict=True))


@given(cluster=clusters(most_nodes=30, most_partitions=20))
def test_lists_are_those_of_the_reference(cluster):
    request = HelixRequest.checked(**cluster.asked())
    tree = Tree.of(request, request.nodes, request.live.__contains__)
    expected = reference_lists(tree, request.partitions, request.replicas)
    assert expected == twin_lists(tree, request.partitions, request.replicas)


names = st.sampled_from(NAMES) | st.text(max_size=20)


@given(names)
def test_hashes_are_those_of_the_reference(text):
    expected = reference_hash(text)
    with answered_by_the_twin(1):
        assert expected == string_hash(text)


@given(
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.integers(0, 5)), min_size=1, max_size=20, unique_by=lambda pair: pair[0]
    ),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(1, 6),
    st.sets(st.integers(0, 19)),
)
def test_what_is_drawn_is_what_the_reference_draws(children, data, count, taken):
    straws = Straws.of([name for name, _ in children], [weight for _, weight in children])
    expected = reference_draw(straws, data, count, taken)
    with answered_by_the_twin(1):
        assert expected == draw(straws, data, count, sorted(taken))


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=6), st.integers(0, 40))
def test_tokens_are_those_of_the_reference(words, each):
    tokens, owners = reference_tokens(words, each)
    with answered_by_the_twin(len(words)):
        assert (tokens.tobytes(), owners.tobytes()) == native.extension.circle_tokens(words, each)


def test_of_a_token_that_two_nodes_have_the_later_one_stays():
    tokens, owners = reference_tokens([5, 5], 10)
    assert {1} == {*owners}
    assert (tokens.tobytes(), owners.tobytes()) == native.extension.circle_tokens([5, 5], 10)


GOOD = Straws.of(["a", "b"], [1000, 1000])


@pytest.mark.parametrize(
    "forged",
    [
        Straws(words=(1,), bins=(0,), lengths=(1, 1), order=(0, 1)),
        Straws(words=(1, 2), bins=(0, 1), lengths=(1,), order=(0, 1)),
        Straws(words=(1, 2), bins=(0, 1), lengths=(1, 1), order=(0, 2)),
        Straws(words=(1, 2), bins=(0, 1), lengths=(1, 65537), order=(0, 1)),
        Straws(words=(), bins=(), lengths=(), order=()),
    ],
)
def test_straws_that_do_not_fit_are_refused(forged):
    zones = [(GOOD, ("a", "b")), (GOOD, ("c", "d"))]
    with pytest.raises(ValueError, match="do not fit"):
        native.extension.crush_lists(["p"], 1, forged, zones)
    with pytest.raises(ValueError, match="do not fit"):
        native.extension.crush_lists(["p"], 1, GOOD, [zones[0], (forged, ("c", "d"))])


def test_lists_that_fall_short_are_filled_by_later_draws_of_the_reference():
    """A zone whose nodes are all out is drawn in vain, and the next draw is by the hash of the word."""
    empty, names = replace(GOOD, lengths=(0, 0)), [f"z{number}" for number in range(6)]
    zones = [
        SimpleNamespace(straws=empty if number < 3 else GOOD, nodes=(f"{number}a", f"{number}b")) for number in range(6)
    ]
    tree = SimpleNamespace(straws=Straws.of(names, [1000] * 6), zones=zones)
    partitions = [f"p{number}" for number in range(50)]
    assert reference_lists(tree, partitions, 2) == twin_lists(tree, partitions, 2)


def test_nothing_asked_is_nothing_answered():
    assert [] == native.extension.crush_lists([], 3, GOOD, [(GOOD, ("a", "b")), (GOOD, ("c", "d"))])
