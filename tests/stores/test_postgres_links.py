"""The two links of a process to a server: one pair for all handles that go by the time of this machine."""

import asyncio

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
