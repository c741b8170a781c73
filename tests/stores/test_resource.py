"""A block that cannot begin: what was opened is closed, what is around it ends, and it may be tried again."""

import asyncio
import threading
from contextlib import contextmanager

import pytest

from apportion.stores.resource import AsyncResource, SyncResource

DEADLINE_SECONDS = 10.0


class Made:
    """What a resource is made of, and what has become of it."""

    def __init__(self, kind):
        self.told, self.closed, self.fails = [], threading.Event(), True
        self.resource = kind("call", self.begin, self.end, self.shown, around=self.around)

    async def begin(self):
        self.told.append("opened")
        return "it"

    async def end(self, opened):
        self.told.append("closed")
        self.closed.set()

    def shown(self, opened, thread):
        if self.fails:
            raise KeyboardInterrupt
        return opened

    @contextmanager
    def around(self, opened):
        self.told.append("around")
        try:
            yield
        finally:
            self.told.append("not around")


def tried(resource):
    async def block():
        async with resource as shown:
            return shown

    if isinstance(resource, AsyncResource):
        return asyncio.run(block())
    with resource as shown:
        return shown


@pytest.mark.parametrize("kind", [SyncResource, AsyncResource])
def test_an_interrupt_before_the_block_ends_what_is_around_it_and_closes_what_was_opened(kind):
    made = Made(kind)
    with pytest.raises(KeyboardInterrupt):
        tried(made.resource)
    assert made.closed.wait(DEADLINE_SECONDS)
    assert ["opened", "around", "closed", "not around"] == [*made.told[:2], *sorted(made.told[2:])]
    made.fails = False
    assert "it" == tried(made.resource)
    assert ["opened", "around", "not around", "closed"] == made.told[4:]
