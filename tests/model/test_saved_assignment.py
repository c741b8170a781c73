"""An assignment of a balancer comes back whole; what is forged in it is refused; an old reader refuses what is new."""

import json
from array import array
from contextlib import suppress
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import ApportionError, Assignment, Node, Topology, balance, decode, encode
from apportion.errors import BadSnapshot, InvalidInput
from apportion.model.certificate import Certificate, Proof
from apportion.model.codec import columns
from apportion.model.codec.parsing import members
from apportion.model.rows import NOBODY, Rows
from tests.model.snapshots import ASSIGNMENT, BALANCED, resealed

ZONED = Topology([Node(f"n{number}", zone=(f"z{number % 3}",)) for number in range(6)])


def saved(assignment):
    return decode(encode(assignment), Assignment)


def same(left, right):
    """Whether two assignments agree in every field, the one that equality leaves out too."""
    return all(getattr(left, field.name) == getattr(right, field.name) for field in fields(Assignment))


def test_every_field_comes_back():
    assert same(BALANCED, saved(BALANCED))
    assert all(getattr(BALANCED, field.name) for field in fields(Assignment))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 40) | st.sets(st.text("abcé", min_size=1, max_size=5), min_size=1, max_size=20),
    st.integers(1, 3),
    st.sets(st.sampled_from(ZONED.ids), max_size=2),
)
def test_what_the_balancer_made_is_verified_after_it_came_back(partitions, replicas, down):
    before = balance.optimal(partitions, replicas, ZONED)
    live = sorted(set(ZONED.ids) - down)
    after = balance.optimal(partitions, replicas, ZONED, previous=saved(before), live=live, spread="best-effort")
    back = saved(after)
    assert same(after, back)
    assert (after.epoch, after.degraded, after.loads) == (back.epoch, back.degraded, back.loads)
    assert balance.verify(after, previous=before) == balance.verify(back, previous=saved(before))


def test_an_assignment_without_nodes_comes_back():
    nothing = Proof(moves=0, prices=(), least=(), most=(), leader_changes=0, leader_prices=())
    certificate = Certificate(previous="", topology="0" * 32, options="0" * 32, home=nothing, current=None)
    empty = Assignment(topology=Topology([]), rows=((),), certificate=certificate)
    assert same(empty, saved(empty))


def test_rows_are_read_into_one_buffer():
    back = saved(BALANCED)
    assert [Rows, Rows] == [type(back.rows), type(back.home)]


def test_equal_assignments_make_equal_bytes_however_their_rows_are_laid_out():
    wide = Rows(array("I", [0, NOBODY, NOBODY, 1, 0, NOBODY]), width=3)
    loose, tight = (Assignment(topology=Topology(["a", "b"]), rows=rows) for rows in (wide, ((0,), (1, 0))))
    assert (tight, tight.epoch, encode(tight)) == (loose, loose.epoch, encode(loose))


def test_an_assignment_with_nothing_new_is_what_it_always_was():
    document = json.loads(encode(ASSIGNMENT))
    assert ["partitions", "replicas", "topology"] == list(document["body"])
    assert ["owners", "zones", "weights"] == list(document["columns"])


def test_a_reader_that_knows_three_members_refuses_the_new_ones_by_name():
    with pytest.raises(BadSnapshot, match="certificate"):
        members(json.loads(encode(BALANCED))["body"], "partitions", "replicas", "topology")


def test_more_than_fits_is_refused_with_the_way_out():
    rows = Rows(array("I", bytes(4 * 2_100_000)), width=1)
    with pytest.raises(
        BadSnapshot,
        match=r"size is 16800269, expected at most 16777216 bytes\.\nSave fewer .* partitions in one",
    ):
        encode(Assignment(topology=Topology(["a"]), rows=rows))


def test_more_names_than_a_refusal_has_memory_for_are_neither_written_nor_read(monkeypatch):
    data = encode(BALANCED)
    monkeypatch.setattr(columns, "MAX_TEXTS", 1)
    for attempt in (lambda: encode(BALANCED), lambda: decode(data, Assignment)):
        with pytest.raises(BadSnapshot, match="names in the snapshot is 2, expected at most 1"):
            attempt()


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 0.5, True, None])
@pytest.mark.parametrize("field", ["moves", "prices"])
def test_a_proof_of_numbers_that_cannot_be_read_is_not_written(field, number):
    changed = replace(BALANCED.certificate.home, **{field: (0, 0, 0, number) if field == "prices" else number})
    with pytest.raises(InvalidInput, match="number of the proof"):
        encode(replace(BALANCED, certificate=replace(BALANCED.certificate, home=changed)))


def test_a_certificate_of_no_digests_is_not_written():
    with pytest.raises(InvalidInput, match="digest"):
        encode(replace(BALANCED, certificate=replace(BALANCED.certificate, options="x")))


def test_a_proof_of_other_nodes_is_not_saved():
    short = Proof(moves=0, prices=(0,), least=(0,), most=(0,), leader_changes=0, leader_prices=(0,))
    with pytest.raises(InvalidInput, match="numbers of the proof is 1, expected 4, one per node"):
        encode(replace(BALANCED, certificate=replace(BALANCED.certificate, home=short)))


def forged(*, body=None, without=(), **edited_columns):
    """Return the balanced example with members of the body and columns replaced, and the checksum that fits."""
    document = json.loads(encode(BALANCED))
    document["body"] |= body or {}
    document["columns"] |= edited_columns
    for name in without:
        (document["body"] if name in document["body"] else document["columns"]).pop(name)
    return resealed(json.dumps(document, separators=(",", ":")).encode() + b"\n")


RULE = {"replicas": 3, "spread_level": 0, "spread": "best-effort"}
CERTIFICATE = json.loads(encode(BALANCED))["body"]["certificate"]
FORGED = {
    "an unknown member": {"body": {"live": []}},
    "an unknown column": {"live": ""},
    "names without lengths": {"without": ["names_lengths"]},
    "lengths without names": {"without": ["names"]},
    "a name too few": {"names_lengths": "0000000a"},
    "a name too long": {"names_lengths": "0000000900000002"},
    "a name twice": {"names": "6161", "names_lengths": "0000000100000001"},
    "an empty name": {"names": "61", "names_lengths": "0000000100000000"},
    "a name of half a character": {"names": "61c3", "names_lengths": "0000000100000001"},
    "a name of two lines": {"names": "61" + "0a61", "names_lengths": "0000000100000002"},
    "home without its width": {"without": ["home_replicas"]},
    "a width of home without home": {"without": ["home"]},
    "home too short": {"home": "00000000" * 3},
    "home of no width": {"body": {"home_replicas": 0}, "home": ""},
    "home wider than there are nodes": {"body": {"home_replicas": 5}},
    "a home on a node that is not there": {"home": "00000004" * 6},
    "a home twice on a node": {"home": "00000000" * 6},
    "owners of another count": {"owners": "00000000" * 3},
    "an owner after nobody": {"owners": "ffffffff" + "00000000" + "00000001" + "00000003"},
    "a node down that is not there": {"down": "00000004"},
    "a node down twice": {"down": "0000000200000002"},
    "half a node down": {"down": "0000"},
    "a size above the span": {"sizes": "0" * 16 + "8" + "0" * 15},
    "a size too few": {"sizes": "0" * 16},
    "no rule": {"body": {"rule": None}},
    "a rule of no replicas": {"body": {"rule": RULE | {"replicas": 0}}},
    "a rule of another spread": {"body": {"rule": RULE | {"spread": "loose"}}},
    "a rule of a level that is no number": {"body": {"rule": RULE | {"spread_level": "0"}}},
    "a rule of a level below the first": {"body": {"rule": RULE | {"spread_level": -1}}},
    "a rule with a member too few": {"body": {"rule": {"replicas": 3, "spread": "strict"}}},
    "no certificate, and its columns": {"without": ["certificate"]},
    "a certificate without its columns": {"without": ["home_proof"]},
    "a certificate of one step with columns of two": {"body": {"certificate": CERTIFICATE | {"current": None}}},
    "a certificate of no step": {"body": {"certificate": CERTIFICATE | {"home": None}}},
    "a certificate with a digest that is a number": {"body": {"certificate": CERTIFICATE | {"previous": 0}}},
    "a certificate with a digest of control characters": {
        "body": {"certificate": CERTIFICATE | {"previous": "\x1b[2J" * 8}}
    },
    "moves of 70 bits": {"body": {"certificate": CERTIFICATE | {"home": [2**70, 0]}}},
    "moves of 64 bits": {"body": {"certificate": CERTIFICATE | {"home": [2**63, 0]}}},
    "a proof of a node too few": {"home_proof": "0" * 64 * 3},
}


@pytest.mark.parametrize("edits", FORGED.values(), ids=FORGED)
def test_a_forged_assignment_is_refused(edits):
    assert same(BALANCED, decode(forged(), Assignment))
    with pytest.raises(BadSnapshot):
        decode(forged(**edits), Assignment)


NONSENSE = (None, 0, -1, 7, 10**15, "", "0", "zz", [], [[]], {}, {"a": "0"}, [1, 0], 2**70)


@pytest.mark.parametrize("name", json.loads(encode(BALANCED))["body"])
def test_a_member_of_nonsense_is_refused(name):
    for nonsense in NONSENSE:
        with pytest.raises(BadSnapshot):
            decode(forged(body={name: nonsense}), Assignment)


@pytest.mark.parametrize(("name", "column"), json.loads(encode(BALANCED))["columns"].items())
def test_a_column_of_nonsense_is_refused_or_answers_without_a_crash(name, column):
    for nonsense in ("", "00", "zz", column[:-2], column * 2, column[::-1], "ff" * (len(column) // 2)):
        with suppress(ApportionError):
            assignment = decode(forged(**{name: nonsense}), Assignment)
            assert assignment.epoch == saved(assignment).epoch
            str(assignment.preference_lists), assignment.loads, assignment.degraded
            balance.verify(assignment)


def test_rows_with_room_for_more_owners_than_there_are_nodes_are_refused():
    column = columns.number_column([0, NOBODY], 4)
    with pytest.raises(BadSnapshot, match="longest row"):
        columns.rows_of(column, 2, 1, 1)
