"""A pin by itself: its waits, its calls for a rescue, and the slots that it settles, on roads that a test drives."""

from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine

from apportion.errors import StaleRoute, StoreUnavailable
from apportion.shards import pin as pins
from apportion.shards.pin import NotAccepted, Pin
from apportion.shards.pins import statistics
from apportion.shards.pins.statistics import FenceWait, RouterStatistics
from apportion.tables.layout import Version

HASH_SLOTS = 64


class Roads:
    """A router with one shard, and its fence. The shard refuses slots as long as `refusals` has some."""

    def __init__(self, *refusals):
        self.statistics = RouterStatistics()
        self.table = SimpleNamespace(
            hash_slots=HASH_SLOTS,
            version=Version(incarnation=1, number=1),
            slot=lambda _: 0,
            shard=lambda _: "one",
        )
        self.read_only, self.refusals = {}, list(refusals)
        self.arrived, self.waits, self.rescues, self.settlings = set(), [], [], []

    def settled(self, slots):
        self.arrived -= slots

    def refreshed(self, version, within_seconds):
        self.waits.append(within_seconds)
        raise StoreUnavailable("table", f"no version after {version}")

    def engine(self, _):
        return create_engine("sqlite://"), self

    def lent(self, connection):
        pass

    def rescue(self, slots):
        self.rescues.append(slots)

    def enter(self, connection, slots, version, *, is_read_only):
        if self.refusals:
            raise NotAccepted(is_switching=self.refusals.pop())

    def settle(self, engine, slots, version):
        self.settlings.append(slots)

    def connect(self, slot, **options):
        self.table.slot = lambda _: slot
        _, connection = Pin(roads=self, keys=("k",), slots=(slot,), **options).connected(None)
        connection.close()


@pytest.mark.parametrize(
    ("slot", "is_switching", "rescues"),
    [(0, False, []), (0, True, [(0,)]), (HASH_SLOTS, False, [(HASH_SLOTS,)]), (HASH_SLOTS, True, [(HASH_SLOTS,)])],
)
def test_a_wait_that_was_too_long_calls_for_a_rescue_of_a_fence_and_of_a_slot_of_one_key(
    slot, is_switching, rescues, monkeypatch
):
    monkeypatch.setattr(pins, "SWITCH_SECONDS", -1.0)
    roads = Roads(is_switching)
    with pytest.raises(StaleRoute):
        roads.connect(slot)
    assert rescues == roads.rescues


@pytest.mark.parametrize("is_switching", [False, True])
def test_a_fence_is_looked_at_often_and_a_table_is_waited_for_once(is_switching):
    roads = Roads(is_switching)
    roads.connect(0)
    (wait,) = roads.waits
    assert is_switching == (wait <= pins._LOOK_SECONDS)
    assert is_switching == (sum(roads.statistics.fences.counts) == 1)


def test_slots_that_came_are_settled_once_and_by_writers_alone():
    roads = Roads()
    roads.arrived = {0, 5}
    for options in ({"is_read_only": True}, {}, {}):
        roads.connect(0, **options)
    assert ([[0]], {5}) == (roads.settlings, roads.arrived)


def test_a_wait_counts_from_its_first_refusal(monkeypatch):
    times = iter([10.0, 13.0])
    monkeypatch.setattr(statistics, "monotonic", lambda: next(times))
    counted = RouterStatistics()
    with FenceWait(counted) as wait:
        wait.begins()
        wait.begins()
    assert 3.0 == counted.fences.seconds
