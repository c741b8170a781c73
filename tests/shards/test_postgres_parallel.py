"""Moves at once between servers, while programs write: no row is lost, and nothing is left."""

import asyncio
import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest

import apportion
from apportion.shards import admin
from tests.shards.sample import SET, Base, Place
from tests.shards.server import OWNER, as_role
from tests.shards.test_postgres_native import Pair

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture
def trio(servers, tmp_path, monkeypatch):
    """A set of three shards on two servers."""
    as_role(monkeypatch, OWNER)
    made = Pair([servers[0], servers[1], servers[0]], tmp_path, shards=("one", "two", "three"))
    made.fill(made.owned())
    yield made
    made.drop()


@contextmanager
def writers(files, count=2):
    """Add rows until the end of the block; yield the list of countries that were written."""
    ended, written = threading.Event(), []

    def write(number):
        with apportion.sync.open_shards(files.url, SET, base=Base) as router:
            serial = 0
            while not ended.is_set():
                country = f"{number}-{serial}"
                router.run(country, lambda session, country=country: session.add(Place(country=country)), attempts=50)
                written.append(country)
                serial += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(count)]
    for each in threads:
        each.start()
    try:
        yield written
    finally:
        ended.set()
        for each in threads:
            each.join()


@pytest.mark.parametrize("channel", ["keys", "native"])
def test_a_shard_is_emptied_to_two_others_at_once_while_programs_write(trio, channel):
    catalogs, steps = trio.catalogs(), []

    async def main():
        plan = await admin.plan(trio.url, SET, weights={"one": 0.0})
        assert 2 == len(plan.moves)
        made = await admin.apply(
            trio.url, SET, plan, channel=channel, parallel=2, observer=lambda event: steps.append(event.step)
        )
        assert made.is_whole, made
        return await admin.clean(trio.url, SET, soak=timedelta(0))

    rows = len(trio.sql("one", "SELECT 1 FROM place"))
    with writers(trio) as written:
        assert asyncio.run(main()).is_whole
    order = [step for step in steps if step in ("list", "switch")]
    assert ["list", "list"] == order[:2]
    found = [
        country for shard in ("one", "two", "three") for (country,) in trio.sql(shard, "SELECT country FROM place")
    ]
    assert sorted([*written, *["FR"] * rows]) == sorted(found)
    verified = asyncio.run(admin.verify(trio.url, SET, base=Base))
    assert (0, 0) == (verified.left, len(trio.sql("one", "SELECT 1 FROM place")))
    assert catalogs == trio.catalogs()
