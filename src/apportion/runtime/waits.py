"""Waits: log lines that name the awaited thing, while a start or an exit takes long.

Promises: a wait of more than a second logs one line at WARNING, by the logger `apportion.group`. Python prints the line
where no logging is set up. Another line follows every five seconds and says how long the wait lasts.
Refuses: to start a task. A wait leaves nothing behind, however it is cancelled.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

logger: logging.Logger = logging.getLogger("apportion.group")
FIRST_SECONDS = 1.0
AGAIN_SECONDS = 5.0


class Saying:
    """A line that is logged again and again until `stop`, on the running loop."""

    def __init__(self, what: Callable[[], str], *, first_seconds: float = FIRST_SECONDS) -> None:
        self._what, self._loop = what, asyncio.get_running_loop()
        self._began = self._loop.time()
        self._next = self._loop.call_later(first_seconds, self._say)

    def stop(self) -> None:
        """Stop logging the line."""
        self._next.cancel()

    def _say(self) -> None:
        logger.warning("%s, for %.0f s now", self._what(), self._loop.time() - self._began)
        self._next = self._loop.call_later(AGAIN_SECONDS, self._say)


@contextmanager
def said(what: Callable[[], str]) -> Iterator[None]:
    """Log the reason of a wait again and again while the block runs, if the wait lasts for more than a second."""
    saying = Saying(what)
    try:
        yield
    finally:
        saying.stop()
