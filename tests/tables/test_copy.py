"""The copy of a table: scans and changes go in, in any order, and the version in use never goes back."""

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest

from apportion.errors import StoreWentBack
from apportion.tables.copy import TableCopy
from apportion.tables.layout import Version
from apportion.tables.publisher import Publisher
from tests.tables.sample import KEYS, NAME, handle, memory, ring, same

FIRST, SECOND = (Version(incarnation=1, number=number) for number in (1, 2))


@pytest.fixture(scope="module")
def story():
    """Return the scans after each of two publishes, and all their changes."""

    async def _published():
        store = handle(memory())
        publisher = Publisher(store, NAME)
        scans = []
        for value in (ring("a"), ring("a", "b")):
            await publisher.publish(value)
            scans.append(await store.scan(KEYS.prefix))
        changes, (first, second) = [], scans
        async with aclosing(store.watch(KEYS.prefix, after=0)) as watched:
            while not changes or changes[-1].revision < second.revision:
                changes.append(await anext(watched))
        return first, second, changes

    return asyncio.run(_published())


@pytest.fixture
def copy():
    return TableCopy(KEYS, None, now=0.0)


def test_a_copy_without_a_version_is_before_every_version_and_after_none(copy):
    assert (True, False, False) == (copy.is_before(FIRST), copy.is_after(None), copy.is_after(FIRST))


def test_a_copy_that_no_store_has_confirmed_counts_from_its_beginning():
    assert 3.0 == TableCopy(KEYS, None, now=3.0).confirmed_at


def test_changes_lead_from_one_version_to_the_next(copy, story):
    first, _, changes = story
    assert FIRST == copy.take(first)
    assert (False, True) == (copy.is_after(FIRST), copy.is_before(SECOND))
    swapped = copy.swapped
    for change in changes:
        copy.apply(change, 1)
    assert same(ring("a", "b"), copy.routes.value)
    assert (SECOND, SECOND, True, True) == (copy.routes.version, copy.heard, copy.is_after(FIRST), swapped.is_set())


def test_a_change_that_a_scan_has_shown_is_no_news(copy, story):
    _, second, changes = story
    copy.take(second)
    routes = copy.routes
    copy.apply(changes[0], 1)
    assert routes is copy.routes
    assert (None, (1, second.revision)) == (copy.trouble, copy.seen)


def test_an_older_scan_takes_nothing_back_and_what_it_confirms_is_trouble(copy, story):
    first, second, _ = story
    copy.confirm(copy.take(second), 5.0)
    copy.confirm(copy.take(first), 6.0)
    assert (SECOND, SECOND, 5.0) == (copy.routes.version, copy.heard, copy.confirmed_at)
    assert isinstance(copy.trouble, StoreWentBack)
    copy.confirm(copy.take(second), 7.0)
    assert (None, 7.0) == (copy.trouble, copy.confirmed_at)


def test_a_number_that_was_given_twice_is_refused_and_the_version_in_use_stays(copy, story):
    async def _published_elsewhere():
        store = handle(memory())
        await Publisher(store, NAME).publish(ring("c"))
        return await store.scan(KEYS.prefix)

    copy.take(story[0])
    with pytest.raises(StoreWentBack, match="another version 1:1"):
        copy.hear(asyncio.run(_published_elsewhere()))
    assert (FIRST, True) == (copy.routes.version, same(ring("a"), copy.routes.value))


def test_a_head_of_a_later_life_than_that_of_the_watch_is_refused(copy, story):
    first, _, changes = story
    before = copy.take(replace(first, incarnation=0))
    with pytest.raises(StoreWentBack, match="life 0"):
        copy.apply(changes[-1], 0)
    assert before == copy.routes.version
