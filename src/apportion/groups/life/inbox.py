"""Inbox: the news that wakes one member. After each turn, the member wakes the callers that wait for it.

Promises: news is taken in the order in which it came. Any thread may tell the member that work has ended.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from apportion.groups.member import Quiet
from apportion.groups.unanswered_commits import CommitAnswered
from apportion.stores.api import Scan, StoreChange

News = StoreChange | Scan | CommitAnswered | Quiet | BaseException | None


class Inbox:
    """The news of one member, on the loop that runs it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._news: list[News] = []
        self._woken, self._turned = asyncio.Event(), asyncio.Event()

    def hear(self, news: News) -> None:
        """Put news into the inbox; None only wakes the member."""
        self._news.append(news)
        self._woken.set()

    def tell(self, news: Quiet | None) -> None:
        """Put news into the inbox, from any thread."""
        self.call(partial(self.hear, news))

    def call(self, function: Callable[[], None]) -> None:
        """Call a function on the loop of this member, from any thread."""
        with suppress(RuntimeError):  # the loop has ended with the interpreter
            self._loop.call_soon_threadsafe(function)

    def quiet(self, partitions: frozenset[int]) -> None:
        """Tell that all work on some partitions has ended, from any thread."""
        self.tell(Quiet(partitions=partitions))

    async def next(self) -> None:
        """Wait until further news comes, besides the news that is already there."""
        self._woken.clear()
        await self._woken.wait()

    async def taken(self, seconds: float | None) -> list[News]:
        """Wait for news, for at most `seconds` if given; return all news that is there, and forget it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()
        news, self._news = self._news, []
        return news

    def keep_quiet(self) -> None:
        """Forget the news of a life that is over, but keep the news of ended work.

        The next life waits for the end of all earlier work.
        """
        self._news = [each for each in self._news if isinstance(each, Quiet)]

    async def turn(self) -> None:
        """Wait until something has changed."""
        await self._turned.wait()

    def note_turn(self) -> None:
        """Wake all callers that wait in `turn`."""
        self._turned.set()
        self._turned = asyncio.Event()

    def turn_soon(self) -> None:
        """Wake all callers that wait in `turn`, from any thread."""
        self.call(self.note_turn)
