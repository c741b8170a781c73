"""The end of a shard's life, on both kinds of databases: its slots go to the other shards while programs write."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

import apportion
from apportion.errors import Conflict, InvalidInput, PlanRefused, UnknownOption
from apportion.shards import admin
from apportion.shards.admin import moves
from tests.shards.sample import SET, Base, Photo, Place
from tests.shards.server import OWNER, as_role

COUNTRIES = [f"C{number}" for number in range(12)]
NOW = timedelta(0)


@pytest.fixture
def world(make_set, kind, monkeypatch):
    """A set of three databases, with a place and a photo of each country."""
    as_role(monkeypatch, OWNER)
    made = make_set(kind, shards=("one", "three", "two"))
    with apportion.sync.open_shards(made.url, SET, base=Base) as router:
        for number, country in enumerate(COUNTRIES):
            router.run(country, lambda session, number=number: session.add_all(rows_of(number)))
    return made


def rows_of(number):
    place = Place(id=UUID(int=number), country=COUNTRIES[number])
    return [place, Photo(id=UUID(int=number), place=place)]


def act(name, world, *words, **options):
    return asyncio.run(getattr(admin, name)(world.url, SET, *words, **options))


def shards(world):
    return {each.id: (each.slots, each.weight, each.rows) for each in act("status", world, has_rows=True).shards}


def count(world, shard, table="place"):
    [(found,)] = world.sql(shard, f"SELECT count(*) FROM {table}")
    return found


def test_a_drained_shard_has_no_slot_and_gets_no_row(world):
    act("pin", world, ["pinned"], base=Base)
    with apportion.sync.open_shards(world.url, SET, base=Base) as router:
        shard = router.shard("pinned")
        before = count(world, shard)
        made = act("drain", world, shard)
        assert made.is_whole
        for country in (*COUNTRIES, "pinned", *(f"N{number}" for number in range(40))):
            router.run(country, lambda session, country=country: session.add(Place(country=country)))
            assert shard != router.shard(country)
    assert before == count(world, shard), "the old rows are there until they are cleaned"
    assert made.moves == act("clean", world, soak=NOW).moves
    assert (0, 0.0, 0) == shards(world)[shard]
    assert 65 == sum(slots for slots, _, _ in shards(world).values())
    whole = act("verify", world, base=Base)
    assert (24 + 12 + 1 + 40, 0, 0) == (whole.rows, whole.left, whole.faulty)
    assert () == act("rebalance", world, by="slots", if_skewed=1).moves


def test_a_shard_gets_slots_again_by_its_weight(world):
    act("drain", world, "two", by="rows", tolerance=0.5)
    with pytest.raises(PlanRefused, match="belong to"):
        act("plan", world, weights={"two": 1})
    act("clean", world, soak=NOW)
    act("apply", world, act("plan", world, weights={"two": 1}))
    assert {21, 22} >= {slots for slots, _, _ in shards(world).values()}


def test_a_drain_that_was_cut_off_goes_on_with_the_same_call(world):
    class Cut(Exception):
        pass

    def cut(event):
        if event.step == "verify":
            raise Cut

    with pytest.raises(Cut):
        act("drain", world, "one", observer=cut)
    assert shards(world)["one"][0] > 0
    made = act("drain", world, "one")
    assert (2, True) == (len(made.moves), made.is_whole)
    assert (0, 0.0) == shards(world)["one"][:2]
    assert act("drain", world, "one") == admin.MovesMade(moves=())


def test_a_slot_that_came_to_a_drained_shard_meanwhile_is_told(world, monkeypatch):
    plan = admin.plan
    with apportion.sync.open_shards(world.url, SET, base=Base) as router:
        key = next(key for key in map(str, range(99)) if router.shard(key) == "one")

    async def raced(*words, **options):
        found = await plan(*words, **options)
        await admin.pin(world.url, SET, [key], base=Base)
        return found

    with monkeypatch.context() as race:
        race.setattr(moves, "plan", raced)
        with pytest.raises(Conflict, match="shard one has 1 slots after its drain") as refusal:
            act("drain", world, "one")
    assert "apportion shards drain URL SET one" in refusal.value.hint
    assert act("drain", world, "one").is_whole
    assert (0, 0.0) == shards(world)["one"][:2]


def test_the_last_shard_with_a_weight_keeps_its_slots(world):
    with pytest.raises(UnknownOption, match="shard is 'four'"):
        act("drain", world, "four")
    before = act("status", world).version
    with pytest.raises(InvalidInput, match="by is 'keys'"):
        act("drain", world, "one", by="keys")
    for tolerance in (-1, 1, float("nan"), "0.1"):
        with pytest.raises(InvalidInput, match="tolerance is"):
            act("drain", world, "one", tolerance=tolerance)
    assert before == act("status", world).version
    for shard in ("one", "two"):
        act("drain", world, shard)
        act("clean", world, soak=NOW)
    with pytest.raises(InvalidInput, match="shard is 'three', expected a shard in a set where another") as refusal:
        act("drain", world, "three")
    assert "--weight ID=1" in refusal.value.hint
    assert (64, 1.0) == shards(world)["three"][:2]
