"""Preference lists of rendezvous hashing for many keys are those of one key after the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Node, Rendezvous, hashers, native
from apportion.errors import InvalidInput, NotEnoughNodes
from apportion.placement.keys.key_bytes import key_bytes
from tests import worlds
from tests.native.comparing import SECRETS, answered_by_the_twin, needs_twin

pytestmark = needs_twin

KEYS = [*(f"tenant-{number}" for number in range(40)), "", "é", b"\xff", 0, -1]
WIDE = [hasher for name in hashers.names() if (hasher := hashers.get(name, key=SECRETS[name])).bits == 64]


def listed(rendezvous, count, spread_level):
    """Return the lists one by one, which the reference makes."""
    ids = rendezvous.topology.ids
    return [
        ids.index(node_id)
        for key in KEYS
        for node_id in rendezvous.preference(key, count, spread_level=spread_level, spread="best-effort")
    ]


@given(worlds.owning_topologies, st.sampled_from(WIDE), st.integers(1, 4), st.sampled_from([None, 0, 1]))
def test_lists_agree_for_all_weights_and_zones(topology, hasher, count, spread_level):
    rendezvous = Rendezvous(topology, hasher=hasher)
    eligible = [node for node in topology if node.weight > 0]
    if count > len(eligible):
        with pytest.raises(NotEnoughNodes):
            rendezvous.preference_indexes(KEYS, count, spread="best-effort")
        return
    zones = {node.fault_domain(spread_level) for node in eligible}
    with answered_by_the_twin(len(KEYS) if count <= len(zones) else 0):
        found = rendezvous.preference_indexes(KEYS, count, spread_level=spread_level, spread="best-effort")
    assert listed(rendezvous, count, spread_level) == list(found)


def test_lists_made_by_several_threads_are_those_of_one():
    rendezvous = Rendezvous([Node(f"node-{number}", zone=(f"zone-{number % 3}",)) for number in range(9)])
    keys = [f"tenant-{number}" for number in range(3 * 4096 + 1)]  # a thread takes 4096 at a time
    one, several = (rendezvous.preference_indexes(keys, 3, threads=threads) for threads in (1, 3))
    assert one == several
    with pytest.raises(InvalidInput, match="threads"):
        rendezvous.preference_indexes(keys, 3, threads=0)


XXH3 = hashers.get("xxh3-64")


@pytest.mark.parametrize(
    ("hasher", "classes", "domains", "count"),
    [
        (XXH3, [(1, [0], [b"a"])], [0], 2),  # more than there are domains
        (XXH3, [(1, [0], [b"a"])], [0], 0),
        (XXH3, [], [], 1),
        (XXH3, [(0, [0], [b"a"])], [0], 1),  # a weight that takes nothing
        (XXH3, [(1, [1], [b"a"])], [0], 1),  # a node without a domain
        (XXH3, [(1, [0], [])], [0], 1),  # a node without a label
        (XXH3, [(1, [0], [b"a"])], [2**31], 1),
        (hashers.get("crc16"), [(1, [0], [b"a"])], [0], 1),
    ],
)
def test_what_cannot_be_ranked_is_refused(hasher, classes, domains, count):
    with pytest.raises(ValueError, match=r"distinct domains|no native twin"):
        native.extension.rendezvous_lists(hasher, classes, domains, count, ["k"])


@pytest.mark.parametrize("hasher", WIDE, ids=lambda hasher: hasher.name)
def test_labels_of_every_length_have_the_hashes_of_the_reference(hasher):
    labels = [bytes((7 * place + length) % 256 for place in range(length)) for length in range(150)]
    for order in (labels, labels[::-1], labels[::7] + labels[::5]):
        nodes = range(len(order))
        found = native.extension.rendezvous_lists(hasher, [(1, nodes, order)], nodes, len(order), KEYS)
        for place, key in enumerate(KEYS):
            data = hasher(key_bytes(key)).to_bytes(8, "little")
            ranking = sorted(nodes, key=lambda node: (-hasher(order[node] + data), node))
            assert ranking == list(found[place * len(order) : (place + 1) * len(order)])
