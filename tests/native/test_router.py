"""Rings and tables in the twin answer like the reference, which is built beside them from the same nodes."""

import gc
import subprocess
import sys
import weakref
from array import array
from bisect import bisect_left
from threading import Thread
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Jump, Node, Rendezvous, Ring, Slots, Topology, balance, hashers, native, plan
from apportion.errors import InvalidInput
from apportion.placement.shapes import circle
from apportion.placement.shapes.twin_table import both_laid
from tests import worlds
from tests.native.comparing import SECRETS, answered_by_the_twin, needs_twin, reference_ring

pytestmark = needs_twin

KEYS = [*(f"tenant-{number}" for number in range(50)), "", "é", "節点", b"\xff\x00", 0, -1, 2**63 - 1, -(2**63)]
EDGES = [0, 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
CLOSE = st.integers(2**63 - 2**17, 2**63 + 2**17)  # some have their first 48 bits in common


def each_hasher():
    return [hashers.get(name, key=SECRETS[name]) for name in hashers.names() if name != "crc16"]


@given(worlds.owning_topologies, st.integers(1, 12), st.sampled_from(each_hasher()))
def test_a_ring_routes_like_the_reference(topology, vnodes, hasher):
    reference = reference_ring(topology, vnodes, hasher)
    with answered_by_the_twin(len(reference._indexes)):
        ring = Ring(topology, vnodes=vnodes, hasher=hasher)
    with answered_by_the_twin(3 * len(KEYS)):
        alone, many, indexes = [ring.route(key) for key in KEYS], ring.route_many(KEYS), ring.route_indexes(KEYS)
    assert alone == many == [reference.route(key) for key in KEYS] == reference.route_many(KEYS)
    assert indexes == reference.route_indexes(KEYS)
    assert ring._cuts() == reference._cuts()


@given(worlds.owning_topologies, worlds.owning_topologies, st.integers(1, 8))
def test_a_ring_that_moved_on_is_the_ring_built_anew(old, new, vnodes):
    kept = [old[node.id] if node.id in old and old[node.id] == node else node for node in new]
    after = Topology(kept, number=2)
    moved, anew = Ring(old, vnodes=vnodes).on(after), Ring(after, vnodes=vnodes)
    assert moved._cuts() == anew._cuts() == reference_ring(after, vnodes, hashers.get())._cuts()
    assert moved.route_many(KEYS) == anew.route_many(KEYS)


def test_a_ring_of_fewer_tokens_than_nodes_moves_on():
    drained = [Node(f"n{number}", weight=0) for number in range(9)]
    ring = Ring([Node("m"), *drained], vnodes=1)
    assert {"m"} == set(ring.on(ring.topology.add(Node("z", weight=0))).route_many(KEYS))
    assert {"a", "m"} == set(ring.on(ring.topology.add("a")).route_many(KEYS))


@given(st.sets(st.sampled_from(EDGES) | CLOSE | st.integers(0, 2**64 - 1), max_size=40), st.data())
def test_positions_at_the_ends_of_stretches_fall_like_in_a_binary_search(bounds, data):
    bounds = sorted(bounds)
    owners = data.draw(st.lists(st.integers(0, 2), min_size=len(bounds) + 1, max_size=len(bounds) + 1))
    laid = native.extension.Router()
    laid._lay(("a", "b", "c"), Chosen(), array("Q", bounds).tobytes(), array("I", owners).tobytes())
    near = {place for bound in [*bounds, *EDGES] for place in (bound - 1, bound, bound + 1) if 0 <= place < 2**64}
    keys = [place.to_bytes(8, "little") for place in near]
    stretches = [bisect_left(bounds, place) for place in near]
    assert stretches == [laid._stretch(key) for key in keys]
    named = ["abc"[owners[stretch]] for stretch in stretches]
    with answered_by_the_twin(3 * len(keys)):
        assert named == [laid.owner_at(place) for place in near] == [laid.route(key) for key in keys]
        assert named == laid.route_many(keys)


class Chosen:
    """A hasher whose position is the key itself."""

    label, bits = "chosen", 64

    @staticmethod
    def digest(data):
        return int.from_bytes(data, "little")


def crowded(position):
    """Return a router all of whose bounds lie together, so that one bucket holds them all."""
    bounds = [position + number for number in range(1000)]
    laid = native.extension.Router()
    laid._lay(("a", "b"), Chosen(), array("Q", bounds).tobytes(), array("I", [0, 1] * 500 + [0]).tobytes())
    return bounds, laid


@pytest.mark.parametrize("position", [0, 2**31, 2**32, 2**63, 2**64 - 1000])
def test_bounds_that_crowd_one_bucket_are_searched_as_well(position):
    bounds, laid = crowded(position)
    for place in (*bounds, max(0, position - 1), min(2**64 - 1, position + 1000)):
        assert bisect_left(bounds, place) == laid._stretch(place.to_bytes(8, "little"))


def test_equal_tokens_belong_to_the_smaller_id_and_come_back_when_it_leaves():
    colliding = Colliding()
    both = Ring(["a", "b", "c"], vnodes=3, hasher=colliding)
    assert {"a"} == set(both.route_many(KEYS))
    after = both.on(both.topology.without("a"))
    assert {"b"} == set(after.route_many(KEYS))
    assert {"a"} == set(after.on(after.topology.add("a")).route_many(KEYS))
    assert both.table() == reference_table(both.topology, 3, colliding)


def test_nodes_whose_tokens_are_another_nodes_too_are_still_met_by_the_walk():
    ring = Ring(["a", "b", "c"], vnodes=2, hasher=Colliding())
    reference = reference_ring(ring.topology, 2, Colliding())
    assert reference._cuts() == ring._cuts()
    assert ("a", "b", "c") == ring.preference("k", 3)
    assert isinstance(ring._ranking(0), native.extension.Ranking)
    assert [0, 1, 2] == list(ring._ranking(0)) == list(reference._ranking(0))


@pytest.mark.parametrize("threads", [0, -1, True, None, "x", 1.5, -(2**64)])
@pytest.mark.parametrize("kind", [Ring, Jump, Rendezvous])
def test_what_is_no_number_of_threads_is_refused_alike(kind, threads):
    placement = kind(["a", "b"])
    for many in (placement.route_many, placement.route_indexes):
        with pytest.raises(InvalidInput, match="threads is"):
            many(KEYS, threads=threads)


@pytest.mark.parametrize("threads", [1, 2, 2**63, 2**64])
def test_any_number_of_threads_gives_the_answers_of_one(threads):
    ring = Ring(["a", "b"])
    assert ring.route_many(KEYS) == ring.route_many(KEYS, threads=threads)


def test_a_ring_whose_tokens_crowd_is_built_like_any():
    hasher = Crowding()
    topology = Topology([f"n{number}" for number in range(20)])
    assert reference_ring(topology, 150, hasher)._cuts() == Ring(topology, hasher=hasher)._cuts()


class Crowding:
    """A hasher whose hashes have their leading bits in common."""

    label, bits = "crowding", 64

    @staticmethod
    def digest(data):
        return crc32(data)

    def __call__(self, data):
        return self.digest(data)


def test_a_ring_that_its_own_hasher_holds_is_collected():
    hasher = Crowding()
    hasher.digest = lambda data, hasher=hasher: crc32(data)
    hasher.ring = Ring(["a"], vnodes=1, hasher=hasher)
    gone = weakref.ref(hasher)
    del hasher
    gc.collect()
    assert gone() is None


def test_memory_that_is_not_there_is_an_error_of_python():
    lines = """
import numpy, resource
from apportion import Ring
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
keys, ring = numpy.broadcast_to(numpy.int64(1), (2**31 - 1,)), Ring(["a", "b"])
for call in (ring.route_many, ring.route_indexes):
    try:
        call(keys)
    except MemoryError:
        print("MemoryError")
"""
    run = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert (0, "MemoryError\nMemoryError\n") == (run.returncode, run.stdout), run.stderr


def reference_table(topology, vnodes, hasher):
    cuts = reference_ring(topology, vnodes, hasher)._cuts()
    first = dict(zip(reversed(array("Q", cuts[0])), reversed(array("I", cuts[1])[:-1]), strict=True))
    return circle.table_of_tokens(first, topology, hasher.label)


class Colliding:
    """A hasher by which every node has the same tokens."""

    label, bits = "colliding", 64

    @staticmethod
    def digest(data):
        return int.from_bytes(data[-1:] or b"\0", "little") << 56

    def __call__(self, data):
        return self.digest(data)


class Clustering(Colliding):
    """A hasher by which three tokens of four lie in a few places of the circle, hundreds together."""

    @staticmethod
    def digest(data):
        spread = hashers.get("xxh3-64").digest(data)
        return spread if spread % 4 == 0 else (spread >> 61 << 61) + (spread & 0xFFFFF)


def test_the_next_version_of_a_crowded_circle_is_the_one_built_from_nothing():
    clustering = Clustering()
    ring = Ring([f"node-{number}" for number in range(30)], vnodes=100, hasher=clustering)
    keys = [f"key-{number}" for number in range(3000)]
    for topology in (
        ring.topology.add("more"),
        ring.topology.without("node-7"),
        ring.topology.without("node-0").add("other").add(Node("heavy", weight=9)),
    ):
        after, anew = ring.on(topology), Ring(topology, vnodes=100, hasher=clustering)
        assert anew._cuts() == after._cuts()
        assert anew.route_many(keys) == after.route_many(keys)
        first = reference_ring(topology, 100, clustering)
        assert first.route_many(keys) == after.route_many(keys)


@given(worlds.owning_topologies, worlds.owning_topologies, st.integers(1, 5))
def test_the_difference_in_the_twin_is_that_of_the_tables(old, new, vnodes):
    before, after = Ring(old, vnodes=vnodes), Ring(new, vnodes=vnodes)
    laid, laid_after = both_laid(before, after)
    table, table_after = before.table(), after.table()
    ranges = len(table.starts) + len(table_after.starts)
    with answered_by_the_twin(2 * len(table.starts) + ranges):
        found = laid.epoch, laid.widths(), laid.diff(laid_after)
    assert (table.epoch, table.widths(), table._overlaid(table_after)) == found
    with answered_by_the_twin(3 * ranges):  # the difference, and both epochs and widths
        found = plan(before, after)
    assert plan(table, table_after) == found


def test_a_plan_of_slots_in_the_twin_is_that_of_their_tables():
    old = Slots(balance.slots(Topology(["a", "b", "c"]), count=16))
    new = Slots(balance.slots(old.topology.add(Node("d", weight=2)), previous=old.assignment))
    ranges = len(old.table().starts) + len(new.table().starts)
    with answered_by_the_twin(3 * ranges):
        found = plan(old, new)
    assert plan(old.table(), new.table()) == found
    assert 16 == found.slots


def test_a_placement_is_asked_only_when_it_is_made_and_made_only_once():
    bare = Ring.__new__(Ring)
    with pytest.raises(RuntimeError, match="before it was made"):
        bare.route("k")
    ring = Ring(["a"])
    with pytest.raises(RuntimeError, match="made already"):
        ring._lay(("a",), hashers.get(), b"", b"\0\0\0\0")


@pytest.mark.parametrize("owners", [b"", b"\0" * 8, (5).to_bytes(4, "little")])
def test_what_is_no_table_stops_in_python(owners):
    with pytest.raises(ValueError, match="each"):
        native.extension.Router()._lay(("a",), hashers.get(), b"", owners)


@pytest.mark.slow
def test_more_nodes_than_sixteen_bits_hold_are_routed():
    ring = Ring([f"n{number:06d}" for number in range(70_000)], vnodes=1)
    indexes = ring.route_indexes(KEYS)
    assert "I" == indexes.typecode
    assert ring.route_many(KEYS) == [ring.topology.ids[index] for index in indexes]
    assert ring.on(ring.topology.without("n000001")).route_many(KEYS) == Ring(
        ring.topology.without("n000001"), vnodes=1
    ).route_many(KEYS)


@pytest.mark.slow
def test_a_ring_grows_beyond_the_nodes_that_sixteen_bits_hold_and_back():
    full = Ring([f"n{number:06d}" for number in range(65_536)], vnodes=1)
    wider = full.on(full.topology.add("a", "z"))
    back = wider.on(wider.topology.without("a", "n000007"))
    for ring in (full, wider, back):
        assert Ring(ring.topology, vnodes=1)._cuts() == ring._cuts()
        assert [ring.topology.ids[index] for index in ring.route_indexes(KEYS)] == ring.route_many(KEYS)


def test_sixteen_threads_get_the_answers_of_one():
    ring = Ring([f"n{number}" for number in range(20)])
    keys = [f"k{number}" for number in range(2000)]
    expected, wrong = ring.route_many(keys), []

    def ask():
        for _ in range(5):
            moved = ring.on(ring.topology.add("m"))
            if ring.route_many(keys) != expected or moved.on(ring.topology).route_many(keys) != expected:
                wrong.append(1)
            wrong.extend(1 for key, owner in zip(keys, expected, strict=True) if ring.preference(key, 2)[0] != owner)

    threads = [Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == wrong
