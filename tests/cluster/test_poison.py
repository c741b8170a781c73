"""A poison is found among the suspects, and no innocent is convicted, whatever was lost with their owners."""

from math import ceil, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.cluster.handover import DEADLY_SECONDS, HEALTHY_SECONDS, Act
from apportion.cluster.poison import deaths, room, tried_next
from apportion.cluster.records import (
    MAX_PARTITIONS,
    QUARANTINE_DEATHS,
    Keys,
    MemberRecord,
    Ownership,
    Target,
    encoded,
    encoded_target,
)
from apportion.cluster.share import Answered, Commit, Joined, Seen, Share, Tick
from apportion.cluster.view import View
from apportion.stores.api import Item, Scan

KEYS = Keys(group="g")
TTL_SECONDS = 5.0
ROOMS = st.dictionaries(st.integers(0, 30), st.integers(1, 12), max_size=12)


@given(st.lists(st.integers(1, 12), max_size=12), ROOMS)
def test_as_many_are_tried_as_all_of_them_allow(tried, rooms):
    if tried:
        tried = [max(each, len(tried)) for each in tried]  # nobody tries more than was said
    after = tried_next(tried, rooms)
    if len(tried) + len(rooms) <= 4:
        assert len(after) == (1 if rooms and not tried else 0)
        return
    company = len(tried) + len(after)
    assert set(after.values()) <= {company}
    assert all(company <= bound for bound in (*tried, *(rooms[each] for each in after)) if after)
    more = company + 1
    fits = sum(bound >= more for bound in rooms.values()) >= more - len(tried) and all(each >= more for each in tried)
    assert not fits, "one more could be tried"


def test_who_is_tried_goes_on_as_it_began():
    rooms = dict.fromkeys(range(7), 5)
    after = tried_next([], rooms)
    for number in range(len(after)):
        left = {each: bound for each, bound in rooms.items() if each >= number}
        assert {each: among for each, among in after.items() if each >= number} == tried_next([5] * number, left)


@pytest.mark.parametrize(
    ("record", "counted", "next_among"),
    [
        (Ownership(owner="c", deaths=0), 1, MAX_PARTITIONS),
        (Ownership(owner="c", deaths=1), 2, MAX_PARTITIONS),
        (Ownership(owner="c", deaths=2), 3, 1),  # as an earlier release writes it
        (Ownership(owner="c", deaths=2, among=1), 3, 1),
        (Ownership(owner="c", deaths=2, among=2), 2, 1),
        (Ownership(owner="c", deaths=2, among=100), 2, 25),
    ],
)
def test_what_a_death_says_of_a_partition(record, counted, next_among):
    assert counted == deaths(record, has_died=True)
    assert next_among == room(record, has_died=True)
    assert record.deaths == deaths(record, has_died=False)
    assert room(record, has_died=False) in (MAX_PARTITIONS, max(1, record.among))


class Fleet:
    """One member that a supervisor starts again each time it dies of the poison, and its store."""

    def __init__(self, partitions, poison):
        self.partitions, self.poison = partitions, poison
        self.view, self.items, self.revision, self.now = View(KEYS, partitions), {}, 0, 0.0
        self.died = 0
        self.put(KEYS.member("c"), encoded(MemberRecord(nonce="c")))
        gone = Ownership(owner="c", session=self.revision, epoch=1, deaths=1)
        for partition in range(partitions):
            self.put(KEYS.own(partition), encoded(gone))
        self.put(KEYS.target, encoded_target(Target(generation=1, digest="d", owners=("a",) * partitions)))
        self.load()
        self.now += DEADLY_SECONDS
        del self.items[KEYS.member("c")]
        self.begin()

    def put(self, key, value):
        self.revision += 1
        self.items[key] = Item(key=key, value=value, revision=self.revision)

    def load(self):
        scan = Scan(items=tuple(self.items.values()), revision=self.revision, incarnation=1)
        return self.view.load(scan, self.now)

    def begin(self):
        self.put(KEYS.member("a"), encoded(MemberRecord(nonce=f"{self.died}")))
        session = self.revision
        touched = self.load()
        self.share = Share(self.view, "a", width=10)
        self.do(self.share.step(Joined(session=session), self.now))
        self.do(self.share.step(Seen(touched=touched), self.now))

    def do(self, actions):
        """Let commits happen, one after another; count what is tried together after each."""
        for action in actions:
            if isinstance(action, Commit):
                self.revision += 1
                for put in action.puts:
                    self.items[put.key] = Item(key=put.key, value=put.value, revision=self.revision)
                self.do(self.share.step(Answered(batch=action.batch, revision=self.revision), self.now))
                tried = [own.ownership for own in self.view.own.values() if own.ownership.deaths == 2]
                ours = [own for own in tried if self.view.is_live(own)]
                assert all(len(ours) <= max(1, own.among) for own in ours)
                assert all(move.partition == self.poison for move in action.moves if move.act is Act.BURY)

    def go_on(self):
        """Let time pass until the member dies of the poison, or next looks at what it waits for."""
        if self.poison in self.share.serving:
            self.died += 1
            self.now += TTL_SECONDS
            self.begin()
        else:
            self.now = self.share.wakes_at() or self.now + HEALTHY_SECONDS
            self.do(self.share.step(Tick(), self.now))

    def convicted(self):
        return {each for each, own in self.view.own.items() if own.ownership.deaths >= QUARANTINE_DEATHS}

    def served(self):
        return set(self.share.serving)


@pytest.mark.parametrize(("partitions", "poison"), [(1, 0), (2, 1), (4, 3), (5, 0), (17, 16), (64, 20), (700, 350)])
def test_of_many_suspects_the_poison_alone_is_convicted_and_few_die_of_it(partitions, poison):
    fleet = Fleet(partitions, poison)
    assert len(fleet.served()) == (partitions if partitions > 4 else 1)
    while fleet.convicted() != {poison} or fleet.served() != set(range(partitions)) - {poison}:
        fleet.go_on()
    assert fleet.died <= (1 if partitions <= 4 else ceil(log(partitions, 4)) + 1)


def test_without_a_poison_all_are_served_at_once_and_absolved():
    fleet = Fleet(300, None)
    assert set(range(300)) == fleet.served()
    fleet.go_on()
    fleet.go_on()
    assert {0} == {own.ownership.deaths for own in fleet.view.own.values()}
    assert {0} == {own.ownership.among for own in fleet.view.own.values()}
