"""A membership takes away the records that hang on its lease, and leaves alone those of another life of its id."""

import asyncio
from dataclasses import replace

import pytest

from apportion.errors import LeaseLost, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.groups.membership import Membership
from apportion.groups.opening import Options
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import LEAVES, GroupRecord, MemberRecord, decoded, encoded, led_by
from apportion.groups.view.view import View
from apportion.stores import Absent, Put, Unchanged
from tests.tables.sample import handle, memory

KEYS = GroupKeys(group="g")
RECORD = GroupRecord(partitions=2)
OPTIONS = Options(group="g", record=RECORD, member_id="a", member=MemberRecord(nonce=""))


async def joined(options=OPTIONS):
    """Let a member join a new group; return the store, the view of the group, and the membership."""
    store, view = handle(memory()), View(KEYS, GroupRecord(partitions=2))
    agreed = await store.commit(when=[Absent(key=KEYS.record)], puts=[Put(key=KEYS.record, value=encoded(RECORD))])
    lease = await store.grant(ttl_seconds=10)
    membership = Membership(store, view, options, agreed=agreed.revision, lease=lease.id)
    await membership.try_to_join(is_patient=True)
    return store, view, membership, lease


async def cleared(controller):
    """Let a member join, be the controller as told, and clear; return the keys that are left."""
    store, _, membership, lease = await joined()
    [there] = (await store.scan(KEYS.member("a"))).items
    puts = [
        Put(key=KEYS.controller, value=controller(there.revision), lease=lease.id),
        Put(key=KEYS.drain("a"), value=LEAVES, lease=lease.id),
    ]
    await store.commit(when=[Absent(key=put.key) for put in puts], puts=puts)
    assert await membership.is_cleared()
    return [item.key for item in (await store.scan("")).items]


@pytest.mark.parametrize(
    ("controller", "left"),
    [
        (lambda session: led_by("a", session).encode(), [KEYS.record]),
        (lambda session: led_by("a", session - 1).encode(), [KEYS.record, KEYS.controller]),
        (lambda session: led_by("b", session).encode(), [KEYS.record, KEYS.controller]),
    ],
    ids=["its own session", "another life of its id", "another member"],
)
def test_a_session_that_clears_its_records_is_no_controller_any_more_and_others_stay_it(controller, left):
    assert sorted(left) == asyncio.run(cleared(controller))


def test_a_damaged_record_on_the_lease_is_cleared_too():
    async def main():
        store, _, membership, lease = await joined()
        [there] = (await store.scan(KEYS.member("a"))).items
        when = [Unchanged(key=there.key, revision=there.revision)]
        await store.commit(when=when, puts=[Put(key=there.key, value=b"{}", lease=lease.id)])
        assert await membership.is_cleared()
        return (await store.scan(KEYS.member("a"))).items

    assert () == tuple(asyncio.run(main()))


@pytest.mark.parametrize("is_drained", [False, True])
def test_a_static_member_that_leaves_takes_its_request_along_and_notes_which_session_was_no_death(is_drained):
    async def main():
        store, view, membership, lease = await joined(replace(OPTIONS, is_static=True))
        if is_drained:
            put = Put(key=KEYS.drain("a"), value=LEAVES, lease=lease.id)
            await store.commit(when=[Absent(key=put.key)], puts=[put])
        view.load(await store.scan(KEYS.live), 0.0)
        session = view.members["a"].session
        await membership.leave()
        items = {item.key: item.value for item in (await store.scan(KEYS.live)).items}
        assert [KEYS.static("a")] == list(items)
        assert session == decoded(MemberRecord, items[KEYS.static("a")]).left_session

    asyncio.run(main())


@pytest.mark.parametrize(
    "error",
    [StoreUnavailable("s", "away"), StoreDenied("s", "no", "Wait."), StoreWentBack("s", "2", "1"), LeaseLost(7)],
    ids=lambda error: type(error).__name__,
)
def test_records_are_not_cleared_while_the_store_does_not_say_so(error, monkeypatch):
    async def main():
        store, _, membership, _ = await joined()

        async def failing(*_, **__):
            raise error

        monkeypatch.setattr(store, "commit", failing)
        return await membership.is_cleared()

    assert not asyncio.run(main())
