"""Witnesses: two records that agree outweigh the third, and a named owner outweighs what denies its partition."""

import pytest

from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import OwnershipRecord, Target, encoded, encoded_target
from apportion.groups.view.view import View
from apportion.groups.view.witnesses import partitions_of
from apportion.stores.api import Item, Scan

KEYS = GroupKeys(group="g")


def seen(target, named, free):
    """Return a view of a target for so many partitions, and of so many ownership records with and without an owner."""
    records = [OwnershipRecord(owner="a", session=4, epoch=1)] * named + [OwnershipRecord(epoch=2)] * free
    items = [Item(key=KEYS.own(each), value=encoded(record), revision=9) for each, record in enumerate(records)]
    if target is not None:
        value = encoded_target(Target(generation=1, digest="d", owners=("a",) * target))
        items.append(Item(key=KEYS.target, value=value, revision=9))
    view = View(KEYS)
    view.load(Scan(items=tuple(items), revision=9, incarnation=1), 0.0)
    return view


@pytest.mark.parametrize(
    ("said", "target", "named", "free", "partitions"),
    [
        (None, None, 0, 0, None),  # a group that is about to be made
        (8, None, 0, 0, 8),
        (8, 8, 3, 0, 8),  # young: not all was claimed yet
        (4, 4, 8, 0, 4),  # resized after its members were killed
        (4, 4, 0, 8, 4),  # resized after they left
        (4, 8, 8, 0, 8),
        (16, 8, 8, 0, 8),
        (8, 2, 8, 0, 8),
        (4, 8, 0, 8, 8),
        (8, 2, 0, 8, 8),
        (4, 2, 8, 0, 2),  # only the target has a checksum
        (16, 2, 8, 0, 16),
        (16, 8, 5, 0, 8),
        (4, 8, 5, 0, 8),
        (4, 2, 0, 0, 4),
        (4, None, 8, 0, 8),
        (4, None, 0, 8, 4),  # resized, then its target was damaged
        (None, 8, 3, 0, 8),
        (None, 4, 8, 0, 4),  # resized after its members were killed, by an earlier release
        (None, 2, 0, 8, 2),
        (None, None, 3, 5, 8),
    ],
)
def test_no_number_of_partitions_is_believed_against_the_other_witnesses(said, target, named, free, partitions):
    assert partitions == partitions_of(said, seen(target, named, free))


def test_ownership_records_that_are_damaged_still_count():
    view = View(KEYS)
    items = tuple(Item(key=KEYS.own(each), value=b"?", revision=9) for each in range(8))
    view.load(Scan(items=items, revision=9, incarnation=1), 0.0)
    assert (8, 8) == (partitions_of(None, view), partitions_of(4, view))


@pytest.mark.parametrize(
    ("said", "target", "named", "partitions"),
    [(4, 4, 8, 4), (16, 1, 8, 8), (16, None, 8, 8), (8, 4, 3, 8), (4, 2, 3, 4), (None, 4, 2, 4)],
)
def test_a_process_that_was_in_the_group_decides_between_records_that_contradict_each_other(
    said, target, named, partitions
):
    assert partitions == partitions_of(said, seen(target, named, 0), remembered=8)
