"""A scan of SQLite in portions: what is written between two portions is caught up, or the scan begins anew."""

import random

import pytest

from apportion.stores.sqlite import scan
from apportion.stores.sqlite.ledger import LedgerState
from apportion.stores.sqlite.scan import SqliteScan


class Table:
    """The items and the history of a store, which answers as the module `ledger` does."""

    def __init__(self, *keys):
        self.items, self.events, self.at = {}, [], LedgerState(1, 0, 0)
        for key in keys:
            self.write(key)

    def write(self, key, value=b"x"):
        """Put a key, or delete it with None for a value."""
        self.at = self.at._replace(revision=self.at.revision + 1)
        self.items.pop(key, None)
        if value is not None:
            self.items[key] = (value, self.at.revision, None)
        self.events.append((key, value, self.at.revision, None))

    def forget(self):
        """Forget all history."""
        self.at, self.events = self.at._replace(compacted=self.at.revision), []

    def state(self, _):
        return self.at

    def within(self, _, start, end, most):
        return [(key, *self.items[key]) for key in sorted(self.items) if start <= key < end][:most]

    def changed_since(self, _, start, end, revision):
        return [each for each in self.events if each[2] > revision and start <= each[0] < end]

    def shown(self):
        """The items of the keys that begin with b, as a scan has to show them."""
        return tuple((key, *self.items[key]) for key in sorted(self.items) if key.startswith(b"b"))


@pytest.fixture
def begun(monkeypatch):
    """Return the way to begin a scan of a table, whose first portion is of three items."""

    def begin(table):
        monkeypatch.setattr(scan, "PORTION_ITEMS", 3)
        monkeypatch.setattr(scan, "ledger", table)
        scanning = SqliteScan(b"b", b"c", tuple)
        scanning.step(None)
        return scanning

    return begin


def finished(scanning, table):
    for _ in range(len(table.items) + 2):
        if scanning.is_complete:
            return scanning.items()
        scanning.step(None)
    raise AssertionError("the scan comes to no end")


@pytest.mark.parametrize("seed", range(20))
def test_a_scan_shows_the_state_of_its_last_portion_whatever_is_written_between_two(seed, begun):
    chance = random.Random(seed)
    keys = [*(b"b%02d" % number for number in range(12)), b"a", b"c"]
    table = Table(*chance.sample(keys, 9))
    scanning = begun(table)
    while not scanning.is_complete:
        for _ in range(chance.randrange(4)):
            table.write(chance.choice(keys), chance.choice([None, b"", b"y"]))
        if chance.randrange(4) == 0:
            table.forget()
        at = scanning.step(None)
        assert table.at == at
    assert table.shown() == scanning.items()


def test_a_scan_whose_history_is_gone_begins_anew(begun):
    table = Table(b"b1", b"b2", b"b3", b"b4")
    scanning = begun(table)
    table.write(b"b1", None)
    table.forget()
    assert table.shown() == finished(scanning, table)


def test_a_scan_goes_on_where_the_history_that_it_needs_is_just_kept(begun):
    table = Table(b"b1", b"b2", b"b3", b"b4")
    scanning = begun(table)
    table.forget()
    table.write(b"b1", None)
    scanning.step(None)
    assert (True, table.shown()) == (scanning.is_complete, scanning.items())


@pytest.mark.parametrize(
    "now", [LedgerState(2, 9, 0), LedgerState(2, 4, 0), LedgerState(1, 3, 0)], ids=["later", "another", "older"]
)
def test_a_scan_into_which_another_life_falls_begins_anew(now, begun):
    table = Table(b"b1", b"b2", b"b3", b"b4")
    scanning = begun(table)
    assert 4 == table.at.revision
    table.items, table.events, table.at = {b"b4": (b"other", 3, None)}, [], now
    assert table.shown() == finished(scanning, table)
