"""The codec reads back what it wrote, refuses whatever is not exactly that, and reads every format version for ever.

Origin of `vectors/v2-*.json`: `encode` of apportion 0.1.0 on the examples of `snapshots.py`, written once by
`python -m tests.model.test_codec`, which leaves alone what is there. They are never to be regenerated: a release that
cannot read them has broken its promise.
"""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Assignment, Plan, Ring, Table, Topology, apply, decode, encode, plan
from apportion.errors import BadSnapshot, InvalidInput
from apportion.model import codec
from apportion.model.codec import envelope
from tests import worlds
from tests.model.snapshots import (
    ASSIGNMENT,
    EXAMPLES,
    PLAN,
    TABLE,
    TOPOLOGY,
    forged,
    is_refused,
)

VECTORS = Path(__file__).parent / "vectors"
EACH = pytest.mark.parametrize("value", EXAMPLES.values(), ids=EXAMPLES)


def write_vectors():
    """Write the golden snapshots of format version 2, each once and never again."""
    VECTORS.mkdir(exist_ok=True)
    for name, value in EXAMPLES.items():
        path = VECTORS / f"v2-{name}.json"
        if not path.exists():
            path.write_bytes(encode(value))


@EACH
def test_a_value_comes_back_as_it_was(value):
    back = decode(encode(value), type(value))
    assert value == back
    assert repr(value) == repr(back)
    assert encode(value) == encode(back)


@pytest.mark.parametrize("value", [TOPOLOGY, TABLE, PLAN], ids=["topology", "table", "plan"])
def test_an_epoch_survives_saving(value):
    back = decode(encode(value), type(value))
    epochs = [(each.before, each.after) if isinstance(each, Plan) else each.epoch for each in (value, back)]
    assert epochs[0] == epochs[1]


@EACH
def test_a_snapshot_is_one_line_of_json(value):
    data = encode(value)
    assert [data] == data.splitlines(keepends=True)
    assert {"apportion", "format_version", "cluster", "checksum", "columns", "body"} == set(json.loads(data))


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_golden_snapshot_of_version_2_is_read_and_written_for_ever(name):
    data = (VECTORS / f"v2-{name}.json").read_bytes()
    assert EXAMPLES[name] == decode(data, type(EXAMPLES[name]))
    assert data == encode(EXAMPLES[name])


@EACH
def test_a_snapshot_cut_at_any_byte_is_refused(value):
    data = encode(value)
    accepted = [length for length in range(len(data)) if not is_refused(data[:length], type(value))]
    assert [] == accepted


@EACH
def test_a_snapshot_with_any_bit_turned_is_refused(value):
    data = encode(value)
    accepted = [bit for bit in range(8 * len(data)) if not is_refused(_turned(data, bit), type(value))]
    assert [] == accepted


@EACH
@pytest.mark.parametrize("added", [b"\n", b" ", b"\0", b"{}"])
def test_a_snapshot_with_something_after_it_is_refused(value, added):
    assert is_refused(encode(value) + added, type(value))
    assert is_refused(added + encode(value), type(value))


def _turned(data, bit):
    turned = bytearray(data)
    turned[bit // 8] ^= 1 << bit % 8
    return bytes(turned)


def test_a_snapshot_above_the_cap_is_refused_before_it_is_looked_at(monkeypatch):
    data = encode(TOPOLOGY)
    monkeypatch.setattr(envelope, "MAX_BYTES", len(data) - 1)
    monkeypatch.setattr(envelope, "_HEAD", None)
    monkeypatch.setattr(envelope, "_parsed", None)
    with pytest.raises(BadSnapshot, match=f"snapshot size is {len(data)}, expected at most {len(data) - 1} bytes"):
        decode(data, Topology)


def test_a_snapshot_of_exactly_the_cap_is_read(monkeypatch):
    data = encode(TOPOLOGY)
    monkeypatch.setattr(envelope, "MAX_BYTES", len(data))
    assert TOPOLOGY == decode(data, Topology)


def test_encoding_above_the_cap_is_refused(monkeypatch):
    monkeypatch.setattr(envelope, "MAX_BYTES", 100)
    with pytest.raises(BadSnapshot, match="snapshot size"):
        encode(TOPOLOGY)


def test_the_cap_is_16_mebibytes():
    assert 16 * 2**20 == codec.MAX_BYTES
    assert is_refused(bytes(codec.MAX_BYTES + 1), Topology)


@EACH
def test_a_snapshot_of_another_kind_is_refused(value):
    kinds = {Topology, Table, Assignment, Plan} - {type(value)}
    for kind in kinds:
        with pytest.raises(BadSnapshot, match="snapshot kind"):
            decode(encode(value), kind)


@EACH
def test_a_snapshot_of_another_cluster_is_refused(value):
    assert value == decode(encode(value), type(value), cluster="orders")
    with pytest.raises(BadSnapshot, match="cluster is 'orders', expected 'payments'"):
        decode(encode(value), type(value), cluster="payments")
    with pytest.raises(BadSnapshot, match="cluster is 'orders', expected ''"):
        decode(encode(value), type(value), cluster="")


def test_a_plan_counted_over_keys_is_not_saved():
    ring = Ring(["a", "b"])
    with pytest.raises(InvalidInput, match="exact plan"):
        encode(plan(ring, ring, keys=["k"]))


@pytest.mark.parametrize("value", [None, "topology", b"", 5, Ring(["a"])], ids=repr)
def test_what_has_no_snapshot_is_refused(value):
    with pytest.raises(InvalidInput, match="snapshot kind"):
        encode(value)


@pytest.mark.parametrize("data", [None, "text", 5, [1]], ids=repr)
def test_what_is_no_bytes_is_refused(data):
    with pytest.raises(BadSnapshot, match="snapshot is"):
        decode(data, Topology)


@pytest.mark.parametrize("padding", [0, 40, 100, 5000])
def test_a_foreign_file_is_refused_without_echoing_its_password(padding):
    url = b"postgres://app:hunter2" + b"x" * padding + b"@db/orders\n"
    for data in (url, b"DATABASE_URL=" + url * 1000, forged(b"topology", url)):
        with pytest.raises(BadSnapshot) as caught:
            decode(data, Topology)
        assert "hunter2" not in str(caught.value) + repr(caught.value)


@given(worlds.topologies)
def test_any_topology_comes_back(topology):
    assert topology == decode(encode(topology), Topology)
    assert topology.epoch == decode(encode(topology), Topology).epoch


@pytest.mark.slow
@given(st.data())
def test_any_table_and_plan_come_back(data):
    old, new = data.draw(worlds.tables()), data.draw(worlds.tables())
    change = plan(old, new)
    assert old == decode(encode(old), Table)
    assert change == decode(encode(change), Plan)
    assert new == apply(decode(encode(change), Plan), old)


@given(st.binary(max_size=300))
def test_no_bytes_crash_the_reader(data):
    assert is_refused(data, Topology)


def test_an_assignment_may_hold_a_partition_that_nobody_owns():
    assert () == decode(encode(ASSIGNMENT), Assignment)[2]


def test_a_version_spelt_another_way_is_refused():
    data = encode(Topology(["a"]))
    with pytest.raises(BadSnapshot):
        decode(data.replace(b'"format_version":2,', b'"format_version":02,'), Topology)


if __name__ == "__main__":
    write_vectors()
