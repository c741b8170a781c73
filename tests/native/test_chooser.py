"""Computed placements in the twin find the owners of the reference, to the bit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Node, Topology, hashers, native
from apportion.placement import Jump, Modulo, Rendezvous, maglev, multiprobe
from apportion.placement.choose_k import ChooseK
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.layouts import envoy_maglev
from apportion.placement.layouts.kafka import Kafka
from apportion.placement.shapes.log2 import log2_fixed
from tests import worlds
from tests.native.comparing import SECRETS, answered_by_the_twin, needs_twin

pytestmark = needs_twin

KEYS = [*(f"tenant-{number}" for number in range(60)), "", "é", b"\xff", 0, -1, 2**63 - 1]
HASHERS = [hashers.get(name, key=SECRETS[name]) for name in hashers.names()]
WIDE = [hasher for hasher in HASHERS if hasher.bits == 64]
IDS = st.sets(st.sampled_from(worlds.NAMES), min_size=1, max_size=8).map(sorted)


def agrees(placement):
    expected = [placement.topology.ids[placement._owner(placement._hash(key_bytes(key)))] for key in KEYS]
    with answered_by_the_twin(3 * len(KEYS)):
        alone, many, indexes = (
            [placement.route(key) for key in KEYS],
            placement.route_many(KEYS),
            placement.route_indexes(KEYS),
        )
    assert expected == alone == many == [placement.topology.ids[index] for index in indexes]


@given(IDS, st.sampled_from(HASHERS))
def test_jump_and_modulo_agree(ids, hasher):
    agrees(Jump(ids[::-1], hasher=hasher))
    agrees(Modulo(ids, hasher=hasher))


@given(IDS)
def test_kafka_agrees(ids):
    agrees(Kafka(ids[::-1]))


@pytest.mark.slow
@given(IDS, st.sampled_from(WIDE), st.sampled_from([11, 251, 65537]))
def test_maglev_agrees(ids, hasher, size):
    agrees(maglev.Maglev(ids, hasher=hasher, table_size=size))
    agrees(envoy_maglev.EnvoyMaglev(ids, table_size=size))


@given(IDS, st.sampled_from(WIDE), st.integers(1, 40))
def test_multiprobe_agrees(ids, hasher, probes):
    agrees(multiprobe.MultiProbe(ids, hasher=hasher, probes=probes))


@given(worlds.owning_topologies, st.sampled_from(WIDE))
def test_rendezvous_agrees_for_all_weights(topology, hasher):
    agrees(Rendezvous(topology, hasher=hasher))


@given(IDS, st.sampled_from(WIDE), st.data())
def test_choose_k_agrees_with_any_numbers_vacant(ids, hasher, data):
    placement = ChooseK(ids, hasher=hasher)
    agrees(placement)
    leaving = data.draw(st.lists(st.sampled_from(ids), unique=True, max_size=len(ids) - 1))
    agrees(placement.on(placement.topology.without(*leaving)))


@pytest.mark.parametrize("left", [1, 2, 500, 999, 1000])
def test_choose_k_agrees_when_few_of_many_are_left(left):
    placement = ChooseK([f"n{number:03d}" for number in range(1000)])
    agrees(placement.on(Topology(placement.order[::-1][:left])))


def test_choose_k_without_a_live_number_is_an_error():
    for owners in ([], [None], [None] * 5):
        with pytest.raises(ValueError, match="owners are indexes of nodes"):
            native.extension.Chooser.choose_k(("a",), hashers.get(), owners)


WEIGHTS = st.integers(1, 10**15).map(lambda millionths: millionths / 1e6)


@given(st.lists(WEIGHTS, min_size=2, max_size=5))
def test_rendezvous_agrees_for_the_least_and_the_largest_weights(weights):
    agrees(Rendezvous(Topology(Node(f"n{place}", weight=weight) for place, weight in enumerate(weights))))


class Chosen:
    """A hasher of two answers, so that nodes tie."""

    label, bits = "chosen", 64

    @staticmethod
    def digest(data):
        return 2**64 - 1 if data[-1:] < b"5" else 0

    def __call__(self, data):
        return self.digest(data)


def test_a_hash_function_of_python_is_left_to_the_reference():
    before = native.extension.keys_handled()
    placement = Rendezvous(["a", "b"], hasher=Chosen())
    assert {"a"} == set(placement.route_many(KEYS))
    assert before == native.extension.keys_handled()


@pytest.mark.parametrize("buckets", [1, 2, 3, 1000, 99_999])
def test_jump_agrees_for_many_buckets(buckets):
    jump = Jump([f"n{number:05d}" for number in range(buckets)])
    agrees(jump)


@given(
    st.integers(1, 2**64) | st.integers(0, 64).map(lambda bits: 2**bits) | st.integers(1, 64).map(lambda b: 2**b - 1)
)
def test_logarithms_agree_to_the_last_bit(value):
    assert log2_fixed(value) == native.extension.log2_fixed(value)


def made(rule, *arguments):
    return getattr(native.extension.Chooser, rule)(("a", "b"), hashers.get(), *arguments)


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        *((rule, [owners]) for rule in ("modulo", "kafka", "jump", "entries") for owners in ([], [0, 2], [2**32 - 1])),
        ("rendezvous", [[]]),
        ("rendezvous", [[(1, [], [])]]),
        ("rendezvous", [[(0, [0], [b"a"])]]),
        ("rendezvous", [[(1, [0, 1], [b"a"])]]),
        ("rendezvous", [[(1, [2], [b"c"])]]),
        ("multiprobe", [[], [], 21]),
        ("multiprobe", [[0], [1], 0]),
        ("multiprobe", [[0, 1], [1], 21]),
        ("choose_k", [[]]),
        ("choose_k", [[None]]),
        ("choose_k", [[0, 2]]),
    ],
)
def test_a_rule_without_what_it_asks_of_its_owners_is_refused_when_it_is_made(rule, arguments):
    with pytest.raises(ValueError, match="owners are indexes of nodes"):
        made(rule, *arguments)


@pytest.mark.parametrize("value", [0, 2**64 + 1, 2**128 - 1])
def test_a_logarithm_of_what_has_none_here_is_refused(value):
    with pytest.raises(ValueError, match="2\\*\\*64"):
        native.extension.log2_fixed(value)


@pytest.mark.parametrize("nodes", [2**63, 2**64 - 1])
def test_more_nodes_than_memory_holds_end_in_an_error_of_python(nodes):
    with pytest.raises(MemoryError):
        native.extension.grouped([0], nodes)
