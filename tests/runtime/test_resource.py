"""A block that cannot begin: the opened resource is closed, its context ends, and it may be tried again."""

import asyncio
import threading
from contextlib import contextmanager

import pytest

from apportion.errors import InvalidInput, StoreUnavailable
from apportion.runtime.resource import AsyncResource, SyncResource

DEADLINE_SECONDS = 10.0


class Made:
    """The parts of a resource, and their fate."""

    def __init__(self, kind):
        self.told, self.closed, self.fails, self.is_away = [], threading.Event(), True, False
        self.breaks = False
        self.resource = kind("call", self.begin, self.end, self.shown, around=self.around)

    async def begin(self):
        self.told.append("opened")
        if self.is_away:
            raise StoreUnavailable("s", "away")
        return "it"

    async def end(self, opened):
        self.told.append("closed" if opened == "it" else f"closed {opened}")
        self.closed.set()
        if self.is_away:
            raise StoreUnavailable("s", "away")

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
            if self.breaks:
                raise KeyboardInterrupt


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


@pytest.mark.parametrize("kind", [SyncResource, AsyncResource])
def test_a_block_may_be_begun_again_after_its_end_and_after_one_that_could_not_be_opened(kind):
    made = Made(kind)
    made.fails, made.is_away = False, True
    with pytest.raises(StoreUnavailable):
        tried(made.resource)
    made.is_away = False
    assert ["it", "it"] == [tried(made.resource) for _ in range(2)]
    assert ["opened", *["opened", "around", "not around", "closed"] * 2] == made.told


@pytest.mark.parametrize("kind", [SyncResource, AsyncResource])
def test_a_block_within_itself_is_refused_before_anything_is_opened(kind):
    made = Made(kind)
    made.fails = False

    async def twice():
        async with made.resource:
            with pytest.raises(InvalidInput, match="one at a time"):
                await made.resource.__aenter__()
            assert ["opened", "around"] == made.told

    if kind is AsyncResource:
        asyncio.run(twice())
    else:
        with made.resource:
            with pytest.raises(InvalidInput, match="one at a time"):
                made.resource.__enter__()
            assert ["opened", "around"] == made.told
    assert ["opened", "around", "not around", "closed"] == made.told


@pytest.mark.parametrize("kind", [SyncResource, AsyncResource])
def test_an_error_of_the_end_is_raised_or_is_a_note_to_the_error_of_the_block(kind):
    made = Made(kind)
    made.fails = False

    async def block(error):
        async with made.resource:
            made.is_away = True
            if error is not None:
                raise error

    def of(error):
        made.is_away = False
        if kind is AsyncResource:
            asyncio.run(block(error))
        else:
            with made.resource:
                made.is_away = True
                if error is not None:
                    raise error

    with pytest.raises(StoreUnavailable):
        of(None)
    with pytest.raises(ZeroDivisionError) as caught:
        of(ZeroDivisionError())
    (note,) = caught.value.__notes__
    assert note.startswith("The close failed too: StoreUnavailable: ")


def test_an_interrupt_while_a_block_ends_closes_what_was_opened():
    made = Made(SyncResource)
    made.fails, made.breaks = False, True
    with pytest.raises(KeyboardInterrupt):
        tried(made.resource)
    assert made.closed.wait(DEADLINE_SECONDS)
