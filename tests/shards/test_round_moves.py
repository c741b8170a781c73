"""Rounds while a mover brings slots to and fro: each slot and each key comes once, and none is missing."""

import threading
from collections import Counter
from contextlib import contextmanager

import pytest
from sqlalchemy import select

from apportion import sync
from apportion.shards.round.round import Round
from apportion.shards.scatter import reads
from tests.shards.sample import SET, SLOTS, Base, Place
from tests.shards.scatter.oracle import moving

pytestmark = pytest.mark.slow
MOVES, MOST_ROUNDS = 4, 400


class Faulty(AssertionError):
    """A round has left something out, or has brought it twice."""


@contextmanager
def writing(router):
    """Write places of new countries until the end of the block; yield the list of those acknowledged."""
    ended, done = threading.Event(), []

    def write():
        while not ended.is_set():
            country = f"C{len(done)}"
            router.run(country, lambda session, country=country: session.add(Place(country=country)))
            done.append(country)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield done
    finally:
        ended.set()
        thread.join()


def checked(router, written, parallel):
    """Check one round and one pass over the keys."""
    before = {*written}
    slots, countries = Counter(), Counter()
    for shard in router.each(parallel=parallel):
        slots.update(shard.slots)
        countries.update(shard.session.scalars(select(Place.country)))
    found = Counter(router.keys(Place))
    for name, counts, least in (
        ("slots", slots, {*range(SLOTS)}),
        ("rows", countries, before),
        ("keys", found, before),
    ):
        if twice := {each for each, count in counts.items() if count > 1}:
            raise Faulty(f"{name} {twice} came twice")
        if missing := least - counts.keys():
            raise Faulty(f"{name} {missing} were left out")


@pytest.fixture(scope="module")
def places(kind, make_set):
    """A set of three shards."""
    return make_set(kind, shards=("one", "two", "three"))


def rounds(places):
    """Go round while slots move and rows are written; return the number of rounds."""
    with sync.open_shards(places.url, SET, base=Base) as router, moving(places) as moves, writing(router) as written:
        for number in range(MOST_ROUNDS):
            checked(router, written, 1 + number % 3)
            if len(moves) >= MOVES:
                return number
    return MOST_ROUNDS


def test_each_slot_and_each_key_comes_once_while_slots_move(places):
    assert rounds(places) >= 3


def rows_of_others(monkeypatch):
    monkeypatch.setattr(reads.ShardRead, "left_out", lambda *_: ())


def fenced_is_owned(monkeypatch):
    monkeypatch.setattr(Round, "_answers", lambda _, reads, __: {each.shard: {*each.states} for each in reads})


@pytest.mark.parametrize("plant", [rows_of_others, fenced_is_owned])
def test_rounds_find_a_planted_bug(places, monkeypatch, plant):
    plant(monkeypatch)
    with pytest.raises(Faulty):
        rounds(places)
