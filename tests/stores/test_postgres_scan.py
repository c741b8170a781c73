"""A scan in portions, between which others write: it shows the store as it is at the last portion."""

import random

import pytest

from apportion.stores import Item
from apportion.stores.postgres import scan
from apportion.stores.postgres.lookout import SeenState
from apportion.stores.postgres.scan import PostgresScan


def item_of(row):
    key, value, revision, lease = row
    return (
        None if key.startswith(b"b-not-ours") else Item(key=key.decode(), value=value, revision=revision, lease=lease)
    )


class Table:
    """The items and the history of a store, which answers as the statement `SCAN` does."""

    def __init__(self, *keys):
        self.items, self.events, self.at, self.compacted = {}, [], SeenState(1, 0), 0
        for key in keys:
            self.write(key)

    def write(self, key, value=b"x", lease=None):
        """Put a key, or delete it with None for a value."""
        self.at = SeenState(self.at.incarnation, self.at.revision + 1)
        self.items.pop(key, None) if value is None else self.items.update({key: (value, self.at.revision, lease)})
        self.events.append((key, value, self.at.revision, lease))

    def portion(self, wanted):
        start, begin, end = (wanted[name] for name in ("start", "next", "end"))
        rows, size = [], 0
        for key in sorted(key for key in self.items if begin <= key < end)[: wanted["most"]]:
            rows += [(False, key, *self.items[key])] if size < wanted["most_bytes"] else []
            size += len(self.items[key][0])
        if wanted["at"] is not None:
            later = [each for each in self.events if each[2] > wanted["at"] and start <= each[0] < begin]
            rows += [(True, *each) for each in later]
        state = (self.at.incarnation, self.at.revision, self.compacted)
        random.Random(len(rows)).shuffle(rows)  # no order is promised
        return [(*state, *row) for row in rows] or [(*state, None, None, None, None, None)]

    def shown(self):
        """The items of the keys that begin with b, as a scan has to show them."""
        own = ((key, *self.items[key]) for key in sorted(self.items) if key.startswith(b"b"))
        return tuple(found for each in own if (found := item_of(each)) is not None)


@pytest.fixture(autouse=True)
def small_portions(monkeypatch):
    monkeypatch.setattr(scan, "PORTION_ITEMS", 3)
    monkeypatch.setattr(scan, "PORTION_BYTES", 10)


def begun(table, *, portions=1):
    scanning = PostgresScan(b"b", b"c", item_of)
    for _ in range(portions):
        scanning.take(table.portion(scanning.wanted()))
    return scanning


def finished(scanning, table):
    for _ in range(len(table.items) + 2):
        if scanning.is_complete:
            return scanning.items()
        scanning.take(table.portion(scanning.wanted()))
    raise AssertionError("the scan comes to no end")


@pytest.mark.parametrize("seed", range(30))
def test_a_scan_shows_the_state_of_its_last_portion_whatever_is_written_between_two(seed):
    chance = random.Random(seed)
    keys = [*(b"b%d" % number for number in range(12)), b"a", b"c", b"b-not-ours"]
    table = Table(*chance.sample(keys, 9))
    scanning = begun(table, portions=0)
    while not scanning.is_complete:
        for _ in range(chance.randrange(4)):
            value = chance.choice([None, b"", b"short", b"of many bytes"])
            table.write(chance.choice(keys), value, lease=chance.choice([None, 7]))
        at = scanning.take(table.portion(scanning.wanted()))
    assert (table.at, table.shown()) == (at, scanning.items())


@pytest.mark.parametrize(
    ("count", "size", "portions"), [(0, 1, 1), (2, 1, 1), (3, 1, 2), (4, 1, 2), (2, 5, 2), (2, 4, 1)]
)
def test_a_portion_that_is_not_full_is_the_last(count, size, portions):
    table = Table()
    for number in range(count):
        table.write(b"b%d" % number, bytes(size))
    scanning = begun(table, portions=portions)
    assert (True, table.shown()) == (scanning.is_complete, scanning.items())
    assert portions == 1 or not begun(table, portions=portions - 1).is_complete


def test_a_scan_whose_history_is_gone_begins_anew():
    table = Table(b"b1", b"b2", b"b3", b"b4")
    scanning = begun(table)
    table.write(b"b1", None)
    table.events, table.compacted = [], table.at.revision
    assert table.shown() == finished(scanning, table)


def test_a_scan_goes_on_where_the_history_that_it_needs_is_just_kept():
    table = Table(b"b1", b"b2", b"b3", b"b4")
    scanning = begun(table)
    table.compacted = table.at.revision
    table.write(b"b1", None)
    scanning.take(table.portion(scanning.wanted()))
    assert table.shown() == scanning.items()


@pytest.mark.parametrize("now", [SeenState(2, 9), SeenState(1, 3)], ids=["another life", "an older revision"])
def test_a_scan_into_which_another_life_falls_begins_anew(now):
    table = Table(b"b1", b"b2", b"b3", b"b4")
    scanning = begun(table)
    assert SeenState(1, 4) == scanning.at
    table.items, table.at = {b"b4": (b"other", 3, None)}, now
    assert SeenState(1, 4) == scanning.take(table.portion(scanning.wanted()))
    assert (None, False) == (scanning.at, scanning.is_complete)
    assert table.shown() == finished(scanning, table)
    assert now == scanning.at
