"""Keys are given to nodes within their caps as the reference gives them: who is displaced, to whom, and the loads."""

from array import array
from itertools import cycle, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Rendezvous, Ring, hashers, native
from apportion.errors import InvalidInput, InvariantBroken
from apportion.placement import bounded
from apportion.placement.bounded import Bounded
from apportion.placement.layouts.redis_slots import HASHER as REDIS_SLOT
from apportion.placement.maglev import Maglev
from apportion.placement.multiprobe import MultiProbe
from tests import worlds
from tests.native.comparing import SECRETS, hammered, needs_twin, outcome

pytestmark = needs_twin

HASHERS = [*(hashers.get(name, key=SECRETS[name]) for name in hashers.names()), REDIS_SLOT]
XXH3 = hashers.get()
# Of the keys in braces Redis hashes what is in them: they have one hash, and are told apart by their bytes.
KEYS = st.one_of(worlds.keys, st.integers(-(2**63), 2**63 - 1), st.text(max_size=3).map(lambda tail: f"{{t}}{tail}"))
BRACED = tuple(f"{{t}}{number * 7 % 100}" for number in range(100))


def agreed(keys, hasher, preferred, caps):
    """Return the outcome on which twin and reference agree; after node i come i + 1, i + 2, ... in a circle."""

    def others(place):
        return islice(cycle(range(len(caps))), preferred[place] + 1, preferred[place] + len(caps))

    expected = outcome(lambda: bounded.filled(keys, hasher, preferred, caps, others))
    before = native.extension.keys_handled()
    assert expected == outcome(lambda: native.extension.filled(keys, hasher, preferred, caps, others))
    answered = len(keys) if isinstance(expected[1], list) else 0
    assert answered == native.extension.keys_handled() - before
    return expected


@st.composite
def worlds_of_keys(draw):
    """Draw keys, a node for each, and caps that leave room for all, for some, or for few."""
    keys = tuple(draw(st.lists(KEYS, max_size=40)))
    nodes = draw(st.integers(1, 5))
    preferred = draw(st.lists(st.integers(0, nodes - 1), min_size=len(keys), max_size=len(keys)))
    caps = draw(st.lists(st.integers(0, 40) | st.just(2**64 - 1), min_size=nodes, max_size=nodes))
    return keys, array(draw(st.sampled_from("HI")), preferred), caps


@given(worlds_of_keys(), st.sampled_from(HASHERS))
def test_the_twin_gives_keys_to_the_nodes_of_the_reference(world, hasher):
    keys, preferred, caps = world
    agreed(keys, hasher, preferred, caps)


@pytest.mark.parametrize("hasher", HASHERS, ids=lambda each: each.label)
def test_many_keys_for_one_node_agree_on_who_comes_first(hasher):
    keys = (*BRACED, *(f"tenant-{number}" for number in range(3000)), *range(500), b"\xff", "é")
    displaced, counts = agreed(keys, hasher, array("H", [1]) * len(keys), [4000, 300, 200])
    assert ([len(keys) - 500, 300, 200], len(keys) - 300) == (counts, len(displaced))


def test_keys_of_one_hash_come_in_the_order_of_their_bytes():
    displaced, _ = agreed(BRACED, REDIS_SLOT, array("H", [0]) * 100, [60, 100])
    assert sorted(BRACED)[60:] == [BRACED[place] for place, _ in displaced]


@pytest.mark.parametrize("caps", [[], [0], [10], [10, 0]])
def test_no_keys_are_given_to_nobody(caps):
    assert ([], [0] * len(caps)) == agreed((), XXH3, array("H"), caps)


@pytest.mark.parametrize("hasher", [XXH3, REDIS_SLOT], ids=lambda each: each.label)
@pytest.mark.parametrize("twice", [("é", "é".encode()), ("{t}1", "{t}1"), (7, b"\7\0\0\0\0\0\0\0"), ("", b"")])
def test_a_key_that_is_there_twice_is_refused_by_name(hasher, twice):
    keys = ("{t}0", twice[0], *BRACED[50:], twice[1], *BRACED[50:52])
    kind, message = agreed(keys, hasher, array("H", [0]) * len(keys), [1000])
    assert (InvalidInput, True) == (kind, f"keys is {twice[0]!r}" in message)


def test_what_is_no_key_is_refused():
    kind, message = agreed(("a", None, 1.5), XXH3, array("H", [0, 0, 0]), [3])
    assert (InvalidInput, True) == (kind, "None" in message)


def test_too_little_room_is_an_error_of_ours():
    assert InvariantBroken is agreed(("a", "b", "c"), XXH3, array("H", [0, 0, 0]), [1, 1])[0]


@pytest.mark.parametrize(
    ("preferred", "candidates", "error"),
    [
        ([0, 0], [1], ValueError),  # fewer than there are keys
        ([0, 0, 0, 0], [1], ValueError),
        ([0, 2, 0], [1], IndexError),  # no such node
        ([0, -1, 0], [1], OverflowError),
        ([0, 0, 0], [2], IndexError),
        ([0, 0, 0], [-1], OverflowError),
        ([0, 0, 0], ["b"], TypeError),
        ([0, 0, 0], 7, TypeError),
        ("abc", [1], TypeError),
        (None, [1], TypeError),
    ],
)
def test_what_a_foreign_placement_gets_wrong_is_an_error_and_no_panic(preferred, candidates, error):
    with pytest.raises(error):
        native.extension.filled(("a", "b", "c"), XXH3, preferred, [1, 5], lambda _: candidates)


def test_an_error_of_who_ranks_the_nodes_comes_through():
    def others(place):
        yield from ()
        raise KeyError(place)

    with pytest.raises(KeyError):
        native.extension.filled(("a", "b"), XXH3, [0, 0], [1, 1], others)


PLACEMENTS = [Ring, Rendezvous, MultiProbe, Maglev]


@pytest.mark.parametrize("kind", PLACEMENTS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("headroom", [1, 50])
def test_an_assignment_is_that_of_the_reference(kind, headroom, monkeypatch):
    keys = [*(f"tenant-{number}" for number in range(2500)), *range(2500)]
    over = Bounded(kind([f"n{number}" for number in range(7)]), headroom_thousandths=headroom)
    before = native.extension.keys_handled()
    found = over.assign(keys)
    assert 2 * len(keys) <= native.extension.keys_handled() - before
    monkeypatch.setattr(native, "IN_USE", False)
    assert over.assign(keys) == found
    assert (headroom > 1) or len(found.displaced) > 0


@given(worlds.owning_topologies, st.lists(worlds.keys, max_size=60, unique_by=str), st.sampled_from([1, 50, 10**6]))
def test_all_weights_and_zones_agree(topology, keys, headroom):
    over = Bounded(Ring(topology, vnodes=3), headroom_thousandths=headroom)
    expected = outcome(lambda: by_the_reference(over, keys))
    assert expected == outcome(lambda: list(over.assign(keys).owners))


def by_the_reference(over, keys):
    indexes = over.placement.route_indexes(keys)
    others = [list(over._others(key)) for key in keys]
    hasher, caps = over.placement.hasher, over.caps(len(keys))
    displaced, _ = bounded.filled(tuple(keys), hasher, indexes, caps, lambda place: iter(others[place]))
    owners = {**dict(enumerate(indexes)), **dict(displaced)}
    return [over.topology.ids[owners[place]] for place in range(len(keys))]


class Unknown:
    """A hasher that the twin does not know."""

    label, bits = "unknown", 64

    @staticmethod
    def digest(data):
        return XXH3.digest(data) >> 60

    def __call__(self, data):
        return self.digest(data)


def test_a_hash_function_of_python_is_left_to_the_reference():
    before = native.extension.keys_handled()
    assigned = Bounded(Rendezvous(["a", "b"], hasher=Unknown()), headroom_thousandths=1).assign(range(100))
    assert (before, 51) == (native.extension.keys_handled(), max(assigned.loads.counts))


def test_threads_get_the_same_answer():
    over = Bounded(Ring(["a", "b", "c"]), headroom_thousandths=10)
    assert 1 == len(hammered(lambda _: (over.assign(range(2000)).owners,), rounds=5))
