"""A membership takes away the records that hang on its lease, and leaves alone those of another life of its id."""

import asyncio

import pytest

from apportion.groups.membership import Membership
from apportion.groups.opening import Options
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import LEAVES, GroupRecord, MemberRecord, encoded, led_by
from apportion.groups.view.view import View
from apportion.stores import Absent, Put
from tests.tables.sample import handle, memory

KEYS = GroupKeys(group="g")
RECORD = GroupRecord(partitions=2)
OPTIONS = Options(group="g", record=RECORD, member_id="a", member=MemberRecord(nonce=""))


async def cleared(controller):
    """Let a member join, be the controller as told, and clear; return the keys that are left."""
    store = handle(memory())
    agreed = await store.commit(when=[Absent(key=KEYS.record)], puts=[Put(key=KEYS.record, value=encoded(RECORD))])
    lease = await store.grant(ttl_seconds=10)
    membership = Membership(store, View(KEYS, 2), OPTIONS, agreed=agreed.revision, lease=lease.id)
    await membership.try_to_join(is_patient=True)
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
