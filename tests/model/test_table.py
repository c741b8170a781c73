"""A table answers every position once, joins equal neighbours, and differs from another by exactly what differs."""

import pickle
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import KeyRange, Node, Table, Topology, plan
from apportion.errors import BadRange, InvalidInput, PlanRefused, UnknownNode
from apportion.model import Change
from tests import invariants, twins, worlds
from tests.worlds import table_of

AB = Topology(["a", "b"])
ABC = Topology(["a", "b", "c"])
END = 2**64


@given(worlds.tables(), worlds.tables())
def test_the_difference_is_that_of_the_dumb_twin(old, new):
    invariants.diff_is_exact(old, new)
    invariants.diff_is_exact(new, old)


@given(st.data())
def test_the_difference_under_one_topology_is_that_of_the_dumb_twin(data):
    topology = data.draw(worlds.topologies)
    old, new = data.draw(worlds.tables(topology)), data.draw(worlds.tables(topology))
    invariants.diff_is_exact(old, new)


@given(worlds.tables(), worlds.tables())
def test_a_plan_moves_what_the_dumb_twin_counts_and_leads_to_the_new_table(old, new):
    invariants.plan_is_exact(plan(old, new), old, new)


@given(worlds.tables())
def test_a_table_does_not_differ_from_itself(table):
    assert () == table.diff(table)
    assert table == table.changed((), table.topology)


@given(worlds.tables(), worlds.positions)
def test_a_position_has_the_owners_that_the_dumb_twin_finds(table, position):
    assert twins.owners_at(table, position) == table.owners(position)
    assert position in table.range_at(position)
    assert (table.range_at(position), table.owners(position)) in list(table.ranges())


@given(worlds.tables())
def test_ranges_cover_the_circle_without_gap_or_overlap(table):
    ranges = [key_range for key_range, _ in table.ranges()]
    assert [0, *(each.end for each in ranges)] == [*(each.start for each in ranges), END]


@given(worlds.tables())
def test_no_two_neighbours_have_the_same_owners(table):
    assert all(left != right for left, right in pairwise(table.rows))


@given(worlds.tables())
def test_widths_are_those_of_the_dumb_twin(table):
    assert twins.widths(table) == table.widths()


@given(worlds.tables(), st.randoms())
def test_a_table_is_made_again_from_its_ranges_in_any_order(table, random):
    ranges = list(table.ranges())
    random.shuffle(ranges)
    assert table == Table.from_ranges(ranges, topology=table.topology, hasher=table.hasher)


@given(worlds.tables(), worlds.tables())
def test_epochs_are_equal_only_where_tables_are(one, other):
    assert (one == other) == (one.epoch.digest == other.epoch.digest)


def test_one_displaced_token_is_one_range_of_exactly_its_width():
    before = table_of([(0, ("a",)), (1000, ("b",)), (5000, ("c",))], ABC)
    after = table_of([(0, ("a",)), (1000, ("b",)), (5777, ("c",))], ABC)
    change = plan(before, after)
    assert (Change(KeyRange(5000, 5777), ("c",), ("b",)),) == change.changes
    assert (777,) == tuple(move.width for move in change.moves)
    assert float(Fraction(777, END)) == change.moved_ratio == change.lower_bound_ratio


def test_a_token_displaced_by_one_position_is_one_range_of_width_one():
    before = table_of([(0, ("a",)), (2**63, ("b",))], AB)
    after = table_of([(0, ("a",)), (2**63 + 1, ("b",))], AB)
    assert (Change(KeyRange(2**63, 2**63 + 1), ("b",), ("a",)),) == before.diff(after)


def test_a_boundary_displaced_past_others_changes_all_that_lies_between():
    before = table_of([(0, ("a",)), (10, ("b",)), (20, ("a",))], AB)
    after = table_of([(0, ("a",)), (10, ("b",)), (30, ("a",))], AB)
    assert (Change(KeyRange(20, 30), ("a",), ("b",)),) == before.diff(after)


def test_neighbouring_ranges_that_change_alike_are_one_change():
    before = table_of([(0, ("a",)), (10, ("b",)), (20, ("a",))], AB)
    after = table_of([(0, ("b",))], AB)
    pieces = [(change.item.start, change.item.end) for change in before.diff(after)]
    assert [(0, 10), (20, END)] == pieces
    halves = table_of([(0, ("a",)), (10, ("b",))], AB).diff(table_of([(0, ("b",)), (10, ("a",))], AB))
    assert [(0, 10), (10, END)] == [(change.item.start, change.item.end) for change in halves]


def test_a_change_of_order_alone_is_a_change_but_moves_nothing():
    change = plan(table_of([(0, ("a", "b"))], AB), table_of([(0, ("b", "a"))], AB))
    assert 1 == len(change.changes)
    assert (0.0, 1.0) == (change.moved_ratio, change.leader_moved_ratio)


def test_the_last_range_reaches_the_end_of_the_circle():
    table = table_of([(0, ("a",)), (END - 1, ("b",))], AB)
    assert (("a",), ("b",)) == (table.owners(END - 2), table.owners(END - 1))
    assert KeyRange(END - 1, END) == table.range_at(END - 1)


def test_equal_neighbours_are_joined_when_a_table_is_built():
    table = table_of([(0, ("a",)), (5, ("a",)), (9, ("b",)), (12, ("b",))], AB)
    assert ((0, 9), ((0,), (1,))) == (table.starts, table.rows)
    assert table_of([(0, ("a",)), (9, ("b",))], AB) == table
    assert table_of([(0, ("a",)), (9, ("b",))], AB).epoch == table.epoch


def test_rows_in_another_order_are_not_joined():
    assert 2 == len(table_of([(0, ("a", "b")), (5, ("b", "a"))], AB).starts)


def test_changes_are_refused_where_the_owners_are_not_those_they_start_from():
    table = table_of([(0, ("a",)), (10, ("b",))], AB)
    change = Change(KeyRange(5, 15), ("a",), ("b",))
    with pytest.raises(PlanRefused, match=r"at \[000000000000000a?"):
        table.changed([change], AB)


def test_tables_of_different_hashers_are_not_compared():
    with pytest.raises(InvalidInput, match="hasher is 'md5', expected 'xxh3-64'"):
        table_of([(0, ("a",))], AB).diff(table_of([(0, ("a",))], AB, hasher="md5"))


def test_a_table_changes_from_one_grid_of_slots_to_another():
    eight = table_of([(0, ("a",)), (END // 8, ("b",))], AB, slots=8)
    sixteen = table_of([(0, ("a",)), (END // 16, ("b",))], AB, slots=16)
    none = table_of([(0, ("a",)), (77, ("b",))], AB)
    for old in (eight, sixteen, none):
        for new in (eight, sixteen, none):
            invariants.plan_is_exact(plan(old, new), old, new)


def test_slots_are_part_of_what_a_table_is():
    plain, slotted = table_of([(0, ("a",))], AB), table_of([(0, ("a",))], AB, slots=4)
    assert plain != slotted
    assert plain.epoch.digest != slotted.epoch.digest


@pytest.mark.parametrize(
    ("starts", "rows", "fault"),
    [
        ((), (), "table rows"),
        ((0,), ((0,), (1,)), "table rows"),
        ((0,), ([0],), "table rows"),
        ((1,), ((0,),), "the first start"),
        ((0, 5, 5), ((0,), (1,), (0,)), "more than the one before"),
        ((0, 7, 5), ((0,), (1,), (0,)), "more than the one before"),
        ((0, END), ((0,), (1,)), r"0 .. 2\*\*64 - 1"),
        ((0, 5.0), ((0,), (1,)), "an int"),
        ((False,), ((0,),), "an int"),
        ((0,), ((),), "table row"),
        ((0,), ((0, 0),), "table row"),
        ((0,), ((2,),), "table row"),
        ((0,), ((-1,),), "table row"),
        ((0,), ((True,),), "table row"),
    ],
)
def test_an_invalid_table_cannot_exist(starts, rows, fault):
    with pytest.raises(InvalidInput, match=fault):
        Table(topology=AB, hasher="h", starts=starts, rows=rows)


@pytest.mark.parametrize("hasher", ["", "\ud800", "a\nb", " x", None, 5])
def test_a_table_has_a_printable_hasher(hasher):
    with pytest.raises(InvalidInput, match="hasher"):
        Table(topology=AB, hasher=hasher, starts=(0,), rows=((0,),))


@pytest.mark.parametrize("slots", [0, -1, 2**24 + 1, True, 4.0])
def test_a_table_has_a_sane_number_of_slots(slots):
    with pytest.raises(InvalidInput, match="slots is"):
        table_of([(0, ("a",))], AB, slots=slots)
    assert [1, 2**24] == [table_of([(0, ("a",))], AB, slots=count).slots for count in (1, 2**24)]


def test_a_boundary_inside_a_slot_is_refused():
    with pytest.raises(BadRange, match="first position of one of 4 slots"):
        table_of([(0, ("a",)), (2**62 + 1, ("b",))], AB, slots=4)


@pytest.mark.parametrize("position", [-1, END, "k", 1.0, True, None])
def test_a_position_off_the_circle_is_refused(position):
    table = table_of([(0, ("a",)), (5, ("b",))], AB)
    for question in (table.owners, table.range_at):
        with pytest.raises(BadRange, match="position is"):
            question(position)


@pytest.mark.parametrize(
    ("ranges", "fault"),
    [
        ([], "a gap"),
        ([KeyRange(1, END)], "a gap"),
        ([KeyRange(0, END - 1)], "a gap"),
        ([KeyRange(0, 5), KeyRange(6, END)], "a gap"),
        ([KeyRange(0, 6), KeyRange(5, END)], "an overlap"),
        ([KeyRange(0, END), KeyRange(0, END)], "an overlap"),
        ([KeyRange(0, END), KeyRange(3, 5)], "an overlap"),
    ],
)
def test_ranges_with_a_gap_or_an_overlap_are_refused(ranges, fault):
    with pytest.raises(BadRange, match=fault):
        Table.from_ranges([(each, ("a",)) for each in ranges], topology=AB, hasher="h")


def test_ranges_owned_by_a_stranger_are_refused():
    with pytest.raises(UnknownNode, match="'z'"):
        Table.from_ranges([(KeyRange(0, END), ("z",))], topology=AB, hasher="h")


def test_equality_ignores_the_number_of_the_topology_but_the_epoch_does_not():
    later = table_of([(0, ("a",))], Topology(["a", "b"], number=2))
    table = table_of([(0, ("a",))], AB)
    assert (table, table.epoch.digest) == (later, later.epoch.digest)
    assert table.epoch != later.epoch


def test_a_weight_or_zone_changes_the_epoch_of_a_table():
    digests = {
        table_of([(0, ("a",))], Topology([node])).epoch.digest
        for node in (Node("a"), Node("a", weight=2), Node("a", zone=("eu",)), Node("a", zone=("eu", "r1")))
    }
    assert 4 == len(digests)


def test_a_table_survives_pickling():
    table = table_of([(0, ("a", "b")), (5, ("b",))], AB)
    assert (table, hash(table)) == (pickle.loads(pickle.dumps(table)), hash(pickle.loads(pickle.dumps(table))))


def test_a_table_shows_its_size_and_epoch_and_not_its_content():
    table = table_of([(0, ("a",)), (END // 2, ("b",))], AB, slots=2)
    assert f"Table(2 ranges over 2 nodes, xxh3-64, 2 slots, epoch {table.epoch})" == repr(table)
