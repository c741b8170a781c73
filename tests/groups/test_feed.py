"""The feed of a group's changes: it goes on where it stopped, whatever the store answers, and ends with its handle."""

import asyncio

import pytest

from apportion.errors import Compacted, StoreDenied, StoreUnavailable
from apportion.groups.view import feed as feeds
from apportion.groups.view.feed import GroupFeed
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord
from apportion.groups.view.view import View
from apportion.stores.api import Scan, StoreChange

AWAY, DENIED = StoreUnavailable("the store", "no connection"), StoreDenied("the store", "no", "Wait.")
FOUR, FIVE = (StoreChange(revision=number, events=()) for number in (4, 5))


def followed(*answers, life=1):
    """Follow a store that gives these watches from revision 3 on; return where each began, and all that was told."""
    left, starts, told = list(answers), [], []

    class Store:
        async def scan(self, prefix):
            return Scan(items=(), revision=9, incarnation=life)

        async def watch(self, prefix, *, after):
            starts.append(after)
            for each in left.pop(0):
                if isinstance(each, Exception):
                    raise each
                yield each

    async def main():
        view = View(GroupKeys(group="g"), GroupRecord(partitions=2))
        view.load(Scan(items=(), revision=3, incarnation=1), 0.0)
        feed = GroupFeed(Store(), view, heard=told.append, troubled=told.append)
        await asyncio.wait_for(feed.follow(3), 10)

    asyncio.run(main())
    return starts, told


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(feeds, "AGAIN_SECONDS", 0)


def test_a_feed_ends_with_the_watch_of_a_handle_that_was_closed():
    assert ([3], [FOUR, FIVE]) == followed([FOUR, FIVE])


@pytest.mark.parametrize("error", [AWAY, DENIED])
def test_a_store_that_is_away_is_told_of_and_watched_again_from_the_last_change_on(error):
    assert ([3, 3, 4], [error, FOUR, error, FIVE]) == followed([error], [FOUR, error], [FIVE])


def test_a_scan_stands_for_a_history_that_is_gone():
    starts, told = followed([FOUR, Compacted(4, 8)], [])
    assert ([3, 9], [4, 9]) == (starts, [each.revision for each in told])


def test_a_history_that_is_gone_with_the_life_of_its_store_ends_the_feed():
    with pytest.raises(Compacted):
        followed([Compacted(3, 8)], [], life=2)
