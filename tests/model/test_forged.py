"""A snapshot whose checksum fits and whose content is nonsense is refused, with a typed error, whatever it says."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import ApportionError, Assignment, Plan, Ring, Table, Topology, apply, decode, encode, plan
from apportion.errors import BadSnapshot
from tests.model.snapshots import PLAN, forged, is_refused, resealed

BODY = b'{"number":1,"ids":["a"],"zones":[[]]}'
COLUMNS = b'"zones":"00000000","weights":"00000000000f4240"'


def test_a_forged_snapshot_with_a_sound_body_is_read_so_the_forger_works():
    assert Topology(["a"]) == decode(forged(b"topology", BODY, columns=COLUMNS), Topology)
    assert encode(Topology(["a"])) == forged(b"topology", BODY, columns=COLUMNS)
    assert encode(PLAN) == resealed(encode(PLAN))


@pytest.mark.parametrize("version", [0, 1, 3, 10, 2**63, 2**64])
def test_an_unknown_format_version_is_refused_by_its_number(version):
    with pytest.raises(BadSnapshot, match=f"format_version is {version}, expected 2"):
        decode(forged(b"topology", BODY, columns=COLUMNS, version=str(version).encode()), Topology)


FORGED_BODIES = {
    "a repeated key": b'{"number":1,"number":1,"ids":["a"],"zones":[[]]}',
    "a repeated key deep inside": b'{"number":1,"ids":["a"],"zones":[{"a":1,"a":1}]}',
    "NaN": b'{"number":NaN,"ids":["a"],"zones":[[]]}',
    "Infinity": b'{"number":Infinity,"ids":["a"],"zones":[[]]}',
    "-Infinity": b'{"number":-Infinity,"ids":["a"],"zones":[[]]}',
    "1e999": b'{"number":1e999,"ids":["a"],"zones":[[]]}',
    "a fraction": b'{"number":0.5,"ids":["a"],"zones":[[]]}',
    "lists nested 100 000 deep": b"[" * 100_000 + b"]" * 100_000,
    "objects nested 100 000 deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "an unclosed nest": b"[" * 100_000,
    "an integer of 4301 digits": b'{"number":' + b"9" * 4301 + b',"ids":["a"],"zones":[[]]}',
    "an integer of 4300 digits": b'{"number":' + b"9" * 4300 + b',"ids":["a"],"zones":[[]]}',
    "an integer above 64 bits": b'{"number":%d,"ids":["a"],"zones":[[]]}' % 2**64,
    "a negative number": b'{"number":-1,"ids":["a"],"zones":[[]]}',
    "true as a number": b'{"number":true,"ids":["a"],"zones":[[]]}',
    "a string as a number": b'{"number":"1","ids":["a"],"zones":[[]]}',
    "no JSON": b"ids",
    "nothing": b"",
    "two values": BODY + BODY,
    "null": b"null",
    "a list": b"[]",
    "a missing member": b'{"ids":["a"],"zones":[[]]}',
    "a member too many": b'{"number":1,"ids":["a"],"zones":[[]],"live":[]}',
    "bytes outside UTF-8": b'{"number":1,"ids":["\xff"],"zones":[[]]}',
    "half a surrogate": b'{"number":1,"ids":["\\ud800"],"zones":[[]]}',
    "a name with a line break": b'{"number":1,"ids":["a\\n"],"zones":[[]]}',
    "a node without numbers": b'{"number":1,"ids":["a","b"],"zones":[[]]}',
    "a zone that is a string": b'{"number":1,"ids":["a"],"zones":["eu"]}',
    "a zone that is not there": b'{"number":1,"ids":["a"],"zones":[]}',
}


@pytest.mark.parametrize("body", FORGED_BODIES.values(), ids=FORGED_BODIES)
def test_a_body_that_only_its_checksum_vouches_for_is_refused(body):
    with pytest.raises(BadSnapshot) as caught:
        decode(forged(b"topology", body, columns=COLUMNS), Topology)
    assert len(str(caught.value)) < 600


FORGED_COLUMNS = {
    "none": b"",
    "one too few": b'"zones":"00000000"',
    "one too many": COLUMNS + b',"starts":""',
    "one twice": COLUMNS + b',"zones":"00000000"',
    "an empty one twice": COLUMNS + b',"a":"","a":""',
    "one that is too long": COLUMNS.replace(b"0f42", b"000f42"),
    "half a byte": COLUMNS.replace(b"0f4240", b"f4240"),
    "no hexadecimal": COLUMNS.replace(b"0f4240", b"0f424g"),
    "a weight above the span": COLUMNS.replace(b"00000000000f4240", b"0f00000000000000"),
    "one without an end": COLUMNS[:-1],
    "one without a name": b'"":"",' + COLUMNS,
    "a number": b'"zones":0,"weights":"00000000000f4240"',
}


@pytest.mark.parametrize("columns", FORGED_COLUMNS.values(), ids=FORGED_COLUMNS)
def test_columns_that_only_their_checksum_vouches_for_are_refused(columns):
    with pytest.raises(BadSnapshot):
        decode(forged(b"topology", BODY, columns=columns), Topology)


def _table_of(starts, owners, *, replicas=1, lengths=None, hasher='"h"'):
    """Return a forged table of node "a"; starts and owners are hexadecimal text."""
    columns = COLUMNS + b',"starts":"%b","owners":"%b"' % (starts.encode(), owners.encode())
    columns += b"" if lengths is None else b',"starts_lengths":"%b"' % lengths.encode()
    members = (hasher.encode(), replicas, BODY)
    return forged(b"table", b'{"hasher":%b,"slots":0,"replicas":%d,"topology":%b}' % members, columns=columns)


ZERO, ONE, TWO = (f"{number:016x}" for number in range(3))
NODE, OTHER, NONE = "00000000", "00000001", "ffffffff"
FORGED_TABLES = {
    "a row of nobody": _table_of(ZERO, NONE),
    "a node that is not there": _table_of(ZERO, OTHER),
    "an owner twice": _table_of(ZERO, NODE * 2, replicas=2),
    "an owner after nobody": _table_of(ZERO, NONE + NODE, replicas=2),
    "a circle that begins late": _table_of(ONE, NODE),
    "starts out of order": _table_of(ZERO + TWO + ONE, NODE * 3),
    "a start twice": _table_of(ZERO + ZERO, NODE * 2),
    "more rows than starts": _table_of(ZERO, NODE * 2),
    "fewer rows than starts": _table_of(ZERO + ONE, NODE),
    "nothing at all": _table_of("", ""),
    "a longer row than there are nodes": _table_of(ZERO, NODE, replicas=10**15),
    "rows of no length": _table_of(ZERO, NODE, replicas=0),
    "bytes beyond their column": _table_of("61", NODE * 2, lengths="00000000" + "00000002"),
    "bytes that begin late": _table_of("6162", NODE * 2, lengths="00000001" * 2),
    "bytes out of order": _table_of("6261", NODE * 3, lengths="00000000" + "00000001" * 2),
    "a nameless hasher": _table_of(ZERO, NODE, hasher='""'),
    "a hasher of half a surrogate": _table_of(ZERO, NODE, hasher='"\\ud800"'),
    "a hasher of two lines": _table_of(ZERO, NODE, hasher='"a\\n"'),
    "a hasher that is a number": _table_of(ZERO, NODE, hasher="5"),
}


@pytest.mark.parametrize("data", FORGED_TABLES.values(), ids=FORGED_TABLES)
def test_a_forged_table_is_refused(data):
    assert ("a",) == decode(_table_of(ZERO, NODE), Table).owners(5)
    with pytest.raises(BadSnapshot):
        decode(data, Table)


def _assignment(partitions, owners):
    columns = COLUMNS + b',"owners":"%b"' % owners
    return forged(b"assignment", b'{"partitions":%d,"replicas":1,"topology":%b}' % (partitions, BODY), columns=columns)


@pytest.mark.parametrize(("partitions", "owners"), [(0, b""), (2, b"00000000"), (10**15, b""), (-1, b"")])
def test_a_forged_assignment_is_refused(partitions, owners):
    assert ("a",) == decode(_assignment(1, b"00000000"), Assignment)[0]
    with pytest.raises(BadSnapshot):
        decode(_assignment(partitions, owners), Assignment)


def _forged_plans():
    """Yield plans with one member of the body, or one column, replaced by nonsense."""
    data = encode(plan(Ring(["a", "b"], vnodes=1), Ring(["a", "c"], vnodes=1)))
    body = json.loads(data)["body"]
    for name in body:
        for nonsense in (None, 0, -1, 7, 10**15, "", "0", "zz", [], [[]], {}, {"a": "0"}, [1, "0" * 32], 2**70):
            edited = json.dumps({**body, name: nonsense}, separators=(",", ":")).encode()
            yield resealed(data.replace(json.dumps(body, separators=(",", ":")).encode(), edited))
    for name, column in json.loads(data)["columns"].items():
        for nonsense in ("", "00", "zz", column[:-2], column * 2, column[::-1], "ff" * (len(column) // 2)):
            yield resealed(data.replace(f'"{name}":"{column}"'.encode(), f'"{name}":"{nonsense}"'.encode()))
    yield resealed(data.replace(b'"old":', b'"was":').replace(b'"new":', b'"old":').replace(b'"was":', b'"new":'))


@pytest.mark.parametrize("data", list(_forged_plans()))
def test_a_forged_plan_is_refused_when_read_or_answers_without_a_crash(data):
    with suppress(ApportionError):
        change = decode(data, Plan)
        assert all(0 <= ratio for ratio in (change.moved_ratio, change.lower_bound_ratio, change.fair_bound_ratio))
        str(change), change.per_node, change.stray_ratio, change.leader_moved_ratio
        apply(change, Ring(["a", "b"], vnodes=1).table())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_json_crashes_the_reader(form):
    body = json.dumps(form).encode()
    assert all(is_refused(forged(name, body), kind) for name, kind in _KINDS.items())


_KINDS = {b"topology": Topology, b"table": Table, b"assignment": Assignment, b"plan": Plan}


def test_a_refused_value_is_named_whole():
    body = b'{"number":1,"ids":["a","a"],"zones":[[]]}'
    columns = b'"zones":"0000000000000000","weights":"00000000000f424000000000000f4240"'
    with pytest.raises(BadSnapshot, match="in the saved topology, node id is 'a', expected an id that no other node"):
        decode(forged(b"topology", body, columns=columns), Topology)


@pytest.mark.parametrize("cluster", [b'"\\n"', b'"\\ud800"', b'"\\q"'])
def test_a_head_with_a_cluster_that_is_no_name_is_refused(cluster):
    with pytest.raises(BadSnapshot):
        decode(forged(b"topology", BODY, columns=COLUMNS, cluster=cluster), Topology)
