"""A frozen table answers as the placement that made it, and refuses every snapshot that `decode` refuses."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Ring, Slots, Topology, balance, decode, encode, hashers, plan
from apportion.errors import BadSnapshot, CannotPlace, InvalidInput, NotEnoughNodes, UnknownOption
from apportion.model.table import Table
from apportion.placement.frozen import Frozen
from tests import worlds
from tests.model.snapshots import BYTES, EXAMPLES, is_refused, resealed
from tests.model.test_forged import FORGED_TABLES
from tests.native.comparing import answered_by_the_twin

KEYS = [f"tenant-{number}" for number in range(300)]
SECRET = bytes(range(16))
RING = Ring(Topology(["a", "b", "c"], cluster="orders"), vnodes=20)
DATA = encode(RING.table(2))


@given(worlds.tables(), st.lists(worlds.keys, max_size=5))
def test_a_loaded_table_has_the_owners_of_the_decoded_one(table, keys):
    with answered_by_the_twin(len(table.starts)):
        frozen = Frozen.load(encode(table))
    made = Frozen(table)
    assert frozen == made
    assert table == frozen.saved
    for key in keys:
        owners = table.owners(hashers.get()(_bytes(key)))
        assert owners[0] == frozen.route(key) == made.route(key) == frozen.explain(key).owner
        assert owners == frozen.preference(key, len(owners))


def _bytes(key):
    return key if isinstance(key, bytes) else str(key).encode()


def test_a_table_routes_as_the_ring_that_made_it():
    frozen = Frozen.load(DATA)
    assert RING.route_many(KEYS) == frozen.route_many(KEYS)
    assert RING.route_indexes(KEYS) == frozen.route_indexes(KEYS)
    assert [RING.preference(key, 2) for key in KEYS] == [frozen.preference(key, 2) for key in KEYS]
    assert RING.table() == frozen.table()
    assert 0 == plan(RING, frozen).moved_ratio


def test_slots_come_back_with_their_number():
    slots = Slots(balance.slots(Topology(["a", "b"]), count=16))
    assert 16 == Frozen.load(encode(slots.table())).slot_count
    assert plan(slots, Frozen.load(encode(slots.table()))).changes == ()


def test_a_longer_list_than_the_table_has_is_refused():
    with pytest.raises(NotEnoughNodes):
        Frozen.load(DATA).preference("k", 3)
    with pytest.raises(NotEnoughNodes):
        Frozen.load(DATA).table(3)


@pytest.mark.parametrize(
    ("count", "options"),
    [(0, {}), (1, {"spread": "wide"}), (1, {"spread_level": -1})],
    ids=["count", "spread", "level"],
)
def test_options_of_a_list_that_cannot_be_are_refused(count, options):
    with pytest.raises(InvalidInput):
        Frozen.load(DATA).preference("k", count, **options)


def test_a_table_does_not_move_on():
    with pytest.raises(CannotPlace, match="names no owners on"):
        Frozen.load(DATA).on(RING.topology)


def test_a_frozen_table_pickles():
    assert pickle.loads(pickle.dumps(Frozen.load(DATA))) == Frozen.load(DATA)


def test_another_cluster_is_refused():
    assert "orders" == Frozen.load(DATA, cluster="orders").topology.cluster
    with pytest.raises(BadSnapshot, match="cluster"):
        Frozen.load(DATA, cluster="payments")


def test_a_secret_hash_is_asked_for_and_checked():
    hasher = hashers.get("siphash-2-4", key=SECRET)
    ring = Ring(["a", "b"], hasher=hasher)
    data = encode(ring.table())
    assert ring.route_many(KEYS) == Frozen.load(data, hasher=hasher).route_many(KEYS)
    with pytest.raises(InvalidInput):
        Frozen.load(data)
    with pytest.raises(InvalidInput, match="that of the table"):
        Frozen.load(data, hasher=hashers.get("siphash-2-4", key=SECRET[::-1]))


@pytest.mark.parametrize("table", [BYTES, None, "table"], ids=["bytes", "none", "text"])
def test_what_cannot_be_frozen_is_refused(table):
    with pytest.raises(InvalidInput):
        Frozen(table)


def test_a_table_of_bytes_is_refused_when_loaded():
    with pytest.raises(InvalidInput):
        Frozen.load(encode(BYTES))


@pytest.mark.parametrize("name", [name for name, value in EXAMPLES.items() if not isinstance(value, Table)])
def test_another_kind_is_refused(name):
    with pytest.raises(BadSnapshot, match="kind"):
        Frozen.load(encode(EXAMPLES[name]))


@given(st.data())
def test_an_edited_table_is_refused_exactly_where_decoding_refuses_it(data):
    table = data.draw(worlds.tables())
    saved = encode(table)
    begin, end = saved.index(b'"columns"'), saved.index(b'"body"')
    place = data.draw(st.integers(begin, end - 1))
    edited = (
        saved[:place]
        + data.draw(st.sampled_from([b"0", b"1", b"f", b"F", b"g", b":", b"/", b"`", b"@"]))
        + saved[place + 1 :]
    )
    try:
        edited = resealed(edited)
    except AttributeError:
        return  # no snapshot any more
    if is_refused(edited, Table):
        with pytest.raises(BadSnapshot):
            Frozen.load(edited)
    else:
        assert decode(edited, Table) == Frozen.load(edited).saved
        Frozen.load(edited).route_many(KEYS[:5])


@pytest.mark.parametrize("data", [data for name, data in FORGED_TABLES.items() if "hasher" not in name])
def test_a_forged_table_is_refused_as_decoding_refuses_it(data):
    data = resealed(data.replace(b'"hasher":"h"', b'"hasher":"xxh3-64"'))
    with pytest.raises(BadSnapshot) as decoding:
        decode(data, Table)
    with pytest.raises(BadSnapshot) as loading:
        Frozen.load(data)
    assert str(decoding.value) == str(loading.value)


@pytest.mark.parametrize("column", ["starts", "owners"])
@pytest.mark.parametrize("place", [0, 7, 8, 15])
@pytest.mark.parametrize("digit", [b"`", b"g", b"/", b":", b"@", b"G", b"\x00", b"\xff", b" ", b"o", b"p"])
def test_what_is_no_digit_is_refused_in_every_place(column, place, digit):
    at = DATA.index(b'"%b":"' % column.encode()) + len(column) + 4 + place
    with pytest.raises(BadSnapshot):
        Frozen.load(resealed(DATA[:at] + digit + DATA[at + 1 :]))


@pytest.mark.parametrize("slots", [16_777_218, 2**30, 2**62, 2**63, 2**64 - 1, -1, -(2**63) - 1])
def test_a_number_of_slots_that_no_table_has_is_refused(slots):
    with pytest.raises(BadSnapshot):
        Frozen.load(resealed(DATA.replace(b'"slots":0', b'"slots":%d' % slots)))


@pytest.mark.parametrize("replicas", [0, 3, 2**63, 2**64 - 1, -1])
def test_a_length_of_rows_that_no_table_has_is_refused(replicas):
    with pytest.raises(BadSnapshot):
        Frozen.load(resealed(DATA.replace(b'"replicas":2', b'"replicas":%d' % replicas)))


def test_a_hasher_that_is_not_the_tables_is_the_callers_mistake_and_not_the_files():
    with pytest.raises(UnknownOption, match="hasher"):
        Frozen.load(DATA, hasher="xxh3-6")
    with pytest.raises(InvalidInput, match="that of the table") as caught:
        Frozen.load(DATA, hasher="md5")
    assert not isinstance(caught.value, BadSnapshot)
