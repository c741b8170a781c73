"""The two links of a process to a server: one pair for all handles that go by the time of this machine."""

import asyncio
import time

import pytest

from apportion.runtime.clock import SystemClock
from apportion.stores.postgres.links import Links
from apportion.stores.url import parse


class Clock:
    def elapsed(self):
        return 0.0


@pytest.mark.parametrize(
    ("clocks", "is_shared"),
    [((SystemClock(), SystemClock()), True), ((SystemClock(), Clock()), False), ((Clock(), Clock()), False)],
)
def test_handles_share_their_links_where_their_clocks_agree(clocks, is_shared):
    async def main():
        url = parse("postgresql://host/db", schemes=["postgresql"])
        one, two = (Links.taken(url, clock) for clock in clocks)
        try:
            return one is two
        finally:
            await one.give_back()
            await two.give_back()

    assert is_shared == asyncio.run(main())


def test_a_doubt_makes_both_links_look_at_the_server_before_their_next_statement():
    async def main():
        links = Links.taken(parse("postgresql://host/db", schemes=["postgresql"]), Clock())
        try:
            both = (links.watching, links.committing)
            for link in both:
                link._looked_at = time.monotonic()
            assert [False, False] == [link._is_doubtful for link in both]
            links.doubt()
            assert [True, True] == [link._is_doubtful for link in both]
        finally:
            await links.give_back()

    asyncio.run(main())
