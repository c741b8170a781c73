"""The moves that a recovery ends: none of them gives a slot to another shard than the one that owns it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidInput
from apportion.shards.mover.recovery import MoveRemains, moves_to_end
from apportion.shards.slot_rows import SlotRow

SHARDS = ("one", "three", "two")
STATES = (None, "owner", "fenced", "moved", "incoming")


@st.composite
def leftovers(draw):
    """Draw owners, slot rows, and the rests of some moves. The row of each owner says so."""
    owners = draw(st.dictionaries(st.integers(0, 5), st.sampled_from(SHARDS), min_size=1))
    rows = {shard: {} for shard in SHARDS}
    for slot, owner in owners.items():
        for shard in SHARDS:
            state = "owner" if shard == owner else draw(st.sampled_from(("moved", "incoming", None)))
            if state is not None:
                rows[shard][slot] = SlotRow(state=state)
    part = st.builds(
        MoveRemains, slots=st.frozensets(st.sampled_from(sorted(owners)), max_size=4), is_captured=st.booleans()
    )
    parts = st.dictionaries(st.sampled_from(SHARDS), part, min_size=1)
    return owners, rows, draw(st.dictionaries(st.sampled_from(("a", "b", "c")), parts, min_size=1))


@given(leftovers())
def test_each_ended_move_leaves_its_slots_with_their_owner(story):
    owners, rows, remains = story
    found = [*moves_to_end(owners, rows, remains, {})]
    for entry in found:
        group = entry.group
        keeper = group.source if entry.record.state == "aborted" else group.target
        assert {keeper} == {owners[slot] for slot in group.slots}, entry
        assert group.source != group.target
    listed = [slot for entry in found for slot in entry.group.slots]
    assert len(set(listed)) == len(listed)
    assert len({entry.group.move for entry in found}) == len(found)


@given(leftovers())
def test_the_shard_that_logs_changes_is_the_source_of_the_pair_with_the_name_of_the_move(story):
    owners, rows, remains = story
    for move, parts in remains.items():
        captured = {shard for shard, part in parts.items() if part.is_captured}
        found = {entry.group.move: entry.group for entry in moves_to_end(owners, rows, {move: parts}, {})}
        if captured & {group.source for group in found.values()}:
            assert found[move].source in captured


def test_a_log_without_slots_ends_with_a_slot_of_its_shard():
    rows = {"one": {1: SlotRow(state="owner")}, "two": {0: SlotRow(state="owner")}}
    log = {"m": {"one": MoveRemains(slots=frozenset(), is_captured=True)}}
    (entry,) = moves_to_end({0: "two", 1: "one"}, rows, log, {})
    assert ("one", "two", (1,), "aborted") == (*told(entry), entry.record.state)


def test_a_log_of_a_shard_that_owns_nothing_ends_as_that_of_a_move_that_has_switched():
    rows = {"one": {}, "two": {0: SlotRow(state="owner")}}
    log = {"m": {"one": MoveRemains(slots=frozenset(), is_captured=True)}}
    (entry,) = moves_to_end({0: "two"}, rows, log, {})
    assert ("one", "two", (0,), "switched") == (*told(entry), entry.record.state)


def test_the_rest_of_a_move_in_a_set_of_one_shard_needs_another_shard():
    rows, log = {"one": {0: SlotRow(state="owner")}}, {"m": {"one": MoveRemains(slots=frozenset({0}))}}
    with pytest.raises(InvalidInput, match="shards of the set is 'one alone, with the rest of move m'") as refused:
        [*moves_to_end({0: "one"}, rows, log, {})]
    assert "apportion shards add URL SET ID=URL" in refused.value.hint


def told(entry):
    return entry.group.source, entry.group.target, entry.group.slots
