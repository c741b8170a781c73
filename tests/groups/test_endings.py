"""An error that ends a member is heard: by whoever asks for a change, or at the end of the block."""

import asyncio
from datetime import timedelta

import pytest

import apportion
from apportion import sync
from apportion.errors import StoreClosed
from apportion.runtime.io_thread import io_thread

TTL = timedelta(seconds=5)


def opened(tmp_path, opening=apportion.open_group):
    return opening(f"sqlite:///{tmp_path / 's.db'}", "g", partitions=2, lease_ttl=TTL)


def strike(group):
    """End a member by an error: its store is closed under it."""
    io_thread().wait(group._participation._store.close())


async def ended(group):
    while group.is_alive:
        await asyncio.sleep(0.005)


async def serves(group):
    async def nothing(partition, token):
        pass

    await group.serve(on_gained=nothing)


async def consumes(group):
    async for _ in group.changes():
        pass


@pytest.mark.parametrize("ask", [serves, consumes], ids=["serve", "changes"])
def test_who_waits_for_changes_hears_what_ended_the_member_and_the_end_of_the_block_is_silent(tmp_path, ask):
    async def story():
        async with opened(tmp_path) as group:
            await group.wait_until_settled()
            asking = asyncio.ensure_future(ask(group))
            await asyncio.sleep(0)
            strike(group)
            with pytest.raises(StoreClosed, match="it was closed"):
                await asking
            with pytest.raises(StoreClosed, match="it was closed"):
                await group.wait_until_settled()
            assert (False, {}) == (group.is_alive, dict(group.owned))
            return "silent"

    assert "silent" == asyncio.run(asyncio.wait_for(story(), 30))


def test_what_ended_a_member_is_raised_at_the_end_of_a_block_that_did_not_ask(tmp_path):
    async def story():
        async with opened(tmp_path) as group:
            await group.wait_until_settled()
            strike(group)
            await ended(group)

    with pytest.raises(StoreClosed, match="it was closed"):
        asyncio.run(asyncio.wait_for(story(), 30))
    with pytest.raises(StoreClosed, match="it was closed"), opened(tmp_path, sync.open_group) as group:  # noqa: PT012
        group.wait_until_settled()
        strike(group)
        asyncio.run(asyncio.wait_for(ended(group), 30))


def test_what_ended_a_member_is_a_note_to_the_error_that_ends_the_block(tmp_path):
    async def story():
        async with opened(tmp_path) as group:
            await group.wait_until_settled()
            strike(group)
            await ended(group)
            raise OSError("of the block")

    with pytest.raises(OSError, match="of the block") as raised:
        asyncio.run(asyncio.wait_for(story(), 30))
    assert ["The close failed too: StoreClosed: this handle of"] == [note[:49] for note in raised.value.__notes__]
