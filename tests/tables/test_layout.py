"""Deltas, heads and keys of published tables, without a store."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Assignment, Node, Ring, Slots, Topology, balance
from apportion.errors import BadSnapshot, InvalidInput
from apportion.model.certificate import Certificate
from apportion.tables.deltas import applied, delta, of_snapshot, snapshot
from apportion.tables.layout import (
    MAX_DELTAS,
    Head,
    TableKeys,
    Version,
    VersionLink,
    decode_head,
    encode_head,
    follow_up,
    resolved,
    routed,
)
from tests.tables.sample import KEYS, assignments, many, numbered_tables, ring, same

values = st.one_of(assignments(), numbered_tables())


@given(values)
def test_a_snapshot_gives_back_the_value(value):
    assert same(value, of_snapshot(snapshot(value), is_table=not isinstance(value, Assignment)))


@given(st.one_of(st.tuples(assignments(), assignments()), st.tuples(numbered_tables(), numbered_tables())))
def test_a_delta_makes_the_next_value_of_the_one_before(pair):
    was, now = pair
    found = delta(was, now)
    if found is None:
        assert was.topology.cluster != now.topology.cluster or _frame(was) != _frame(now)
    else:
        assert same(now, applied(was, found))


def _frame(value):
    """What a delta cannot change, said in another way."""
    if isinstance(value, Assignment):
        return (list(value.preference_lists),)
    return value.hasher, value.is_measurable


@pytest.mark.parametrize(
    ("was", "now", "most_bytes"),
    [
        (ring("a", "b", "c"), ring("a", "b", "c", "d"), 400),
        (ring("a", "b", "c", "d"), ring("a", "b", "d"), 300),
        (many(1), Assignment(topology=many(1).topology.reweight("node-1", 2), rows=many(1).rows), 150),
    ],
)
def test_a_delta_is_about_what_changed_alone(was, now, most_bytes):
    assert len(delta(was, now)) <= most_bytes < len(snapshot(now))


def test_rows_of_nodes_whose_indexes_shift_are_no_part_of_a_delta():
    topology = Topology([f"node-{number:02d}" for number in range(50)])
    smaller = topology.without("node-00")
    owners = [f"node-{place * 7 % 50:02d}" for place in range(1_000)]
    was = Assignment(topology=topology, rows=tuple((topology.index(owner),) for owner in owners))
    heirs = ["node-01" if owner == "node-00" else owner for owner in owners]
    now = Assignment(topology=smaller, rows=tuple((smaller.index(owner),) for owner in heirs))
    assert len(delta(was, now)) <= 250


@pytest.mark.slow
@given(pair=st.tuples(assignments(), assignments()), data=st.data())
def test_a_delta_that_was_damaged_gives_no_other_value_unseen(pair, data):
    was, now = pair
    found = delta(was, now)
    if found is None:
        return
    place = data.draw(st.integers(0, len(found) - 1))
    damaged = found[:place] + bytes([found[place] ^ (1 << data.draw(st.integers(0, 7)))]) + found[place + 1 :]
    with pytest.raises(BadSnapshot):
        applied(was, damaged)


@pytest.mark.slow
@given(pair=st.tuples(numbered_tables(), numbered_tables()), data=st.data())
def test_a_delta_that_was_forged_is_refused_or_another_epoch(pair, data):
    """The checksum of the compression is right here: what holds then is the epoch."""
    was, now = pair
    found = delta(was, now)
    if found is None:
        return
    raw = bytearray(zlib.decompress(found))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        value = applied(was, zlib.compress(bytes(raw)))
    except BadSnapshot:
        return
    assert value == now or value.epoch != now.epoch


@pytest.mark.parametrize("junk", [b"", b"{}", zlib.compress(b""), zlib.compress(b"{}\n"), zlib.compress(b"[" * 99_999)])
def test_what_is_no_delta_is_refused(junk):
    with pytest.raises(BadSnapshot):
        applied(many(1), junk)


def test_a_small_chunk_that_would_become_huge_is_refused():
    with pytest.raises(BadSnapshot, match="16777216"):
        applied(many(1), zlib.compress(b" " * (16 * 2**20 + 1)))


def test_a_reader_of_any_link_comes_to_the_newest_value():
    """One that is at no link of the head, or at none, begins with the snapshot."""
    values, kept, heads = [many(1)], {}, []
    for place in range(6):
        head, chunks = follow_up(
            heads[-1] if heads else None,
            values[-2] if heads else None,
            values[-1],
            incarnation=1,
            number=place + 1,
            nonce=f"n{place}",
            part_bytes=10**6,
        )
        kept |= dict(zip(KEYS.parts(head.links[-1]), chunks, strict=True))
        heads.append(head)
        values.append(_changed(values[-1], 7 * place))
    assert 6 == len(heads[-1].links)
    strange = (VersionLink(version=5, nonce="other", parts=1, size_bytes=1), many(2))
    for at in (None, strange, *zip(heads[-1].links, values, strict=False)):
        assert same(values[5], resolved(heads[-1], KEYS, kept, at=at))


def test_the_delta_of_another_version_is_refused_by_its_epoch():
    first, second, third = many(1), _changed(many(1), 7), _changed(many(1), 5)
    head, chunks = follow_up(None, None, first, incarnation=1, number=1, nonce="n1", part_bytes=10**6)
    kept = dict(zip(KEYS.parts(head.links[0]), chunks, strict=True))
    later, chunks = follow_up(head, first, second, incarnation=1, number=2, nonce="n2", part_bytes=10**6)
    kept |= dict(zip(KEYS.parts(later.links[1]), chunks, strict=True))
    assert same(second, resolved(later, KEYS, kept))
    with pytest.raises(BadSnapshot, match="as announced"):
        resolved(later, KEYS, kept, at=(later.links[0], third))


def _changed(value, place):
    rows = list(value.rows)
    rows[place % len(rows)] = ((rows[place % len(rows)][0] + 1) % 5,)
    return Assignment(topology=Topology(value.topology.nodes, number=value.topology.number + 1), rows=tuple(rows))


@pytest.mark.slow
def test_a_new_reader_meets_few_deltas_that_are_smaller_than_their_snapshot():
    head, was, lengths = None, None, []
    value = many(1)
    for place in range(3 * MAX_DELTAS):
        head, _ = follow_up(head, was, value, incarnation=1, number=place + 1, nonce="n", part_bytes=10**6)
        was, value = value, _changed(value, 7 * place)
        lengths.append(len(head.links))
        base, *deltas = head.links
        assert sum(link.size_bytes for link in deltas) < base.size_bytes
        assert place + 1 == head.version
    assert 1 < max(lengths) <= 1 + MAX_DELTAS
    assert lengths.count(1) >= 2


def test_small_deltas_are_followed_by_a_snapshot_after_thirty_two():
    topology = Topology([f"node-{number:04d}" for number in range(2_000)])
    head, was, lengths = None, None, []
    for number in range(1, 2 * MAX_DELTAS + 4):
        value = Assignment(topology=Topology(topology.nodes, number=number), rows=((0,), (1,)))
        head, _ = follow_up(head, was, value, incarnation=1, number=number, nonce="n", part_bytes=10**6)
        was = value
        lengths.append(len(head.links))
    assert [*range(1, MAX_DELTAS + 2), *range(1, MAX_DELTAS + 2), 1] == lengths


def test_a_head_comes_back_and_a_later_format_is_refused_with_what_to_do():
    links = (
        VersionLink(version=7, nonce="5bb0ed416ab1", parts=2, size_bytes=9),
        VersionLink(version=8, nonce="7a", parts=1, size_bytes=1),
    )
    head = Head(incarnation=1, kind="assignment", epoch=many(1).epoch, links=links)
    assert head == decode_head(encode_head(head))
    with pytest.raises(BadSnapshot, match="Upgrade"):
        decode_head(encode_head(head).replace(b'"format_version":1', b'"format_version":2'))
    for old, new in ((b"[8,", b"[9,"), (b'"assignment"', b'"plan"'), (b"[7,", b"[-7,"), (b'"links"', b'"lynx"')):
        with pytest.raises(BadSnapshot):
            decode_head(encode_head(head).replace(old, new))
    for junk in (b"", b"\xff", b"[]", b"[" * 100_000):
        with pytest.raises(BadSnapshot):
            decode_head(junk)


def test_a_head_that_names_more_chunks_than_there_are_costs_nothing():
    link = VersionLink(version=1, nonce="n", parts=2**60, size_bytes=2**60)
    with pytest.raises(BadSnapshot, match="chunks of version 1"):
        resolved(Head(incarnation=1, kind="table", epoch=many(1).epoch, links=(link,)), KEYS, {})


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "a\x00b", " a", "x" * 201, "é" * 101, 7, None, "\ud800"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(InvalidInput):
        TableKeys(name)


def test_a_name_has_up_to_200_bytes():
    assert ["x" * 200, "é" * 100] == [TableKeys(name).name for name in ("x" * 200, "é" * 100)]


def test_the_keys_of_one_name_are_never_those_of_another():
    assert not TableKeys("a-b").head.startswith(TableKeys("a").prefix)


def test_what_is_no_table_is_refused_with_what_to_pass():
    for other in (Ring(["a"]), Topology(["a"]), {"a": 1}, None):
        with pytest.raises(InvalidInput, match=r"Publish the table\(\) of a placement"):
            routed(other)


def test_of_an_assignment_the_owners_are_published_and_nothing_else():
    before = balance.optimal(["orders", "users"], 2, Topology([Node("a"), Node("b"), Node("c")]))
    made = balance.optimal(["orders", "users"], 2, before.topology, previous=before, live=["a", "b"])
    assert isinstance(made.certificate, Certificate)
    kept = routed(made)
    assert dict(made.preference_lists) == dict(kept.preference_lists)
    assert (None, (), None, None) == (kept.home, kept.down, kept.rule, kept.certificate)


def test_versions_are_ordered_by_the_life_of_the_store_first():
    assert Version(incarnation=1, number=10) < Version(incarnation=2, number=2) < Version(incarnation=2, number=10)


def test_slots_and_rings_are_published_as_the_tables_that_they_are():
    for table in (Slots(balance.slots(Topology(["a", "b"]))).table(), ring("a", "b")):
        assert same(table, of_snapshot(snapshot(table), is_table=True))
