"""Whether members are alive is seen by a renewal, or by none in half of their longest time to live."""

import asyncio
from types import SimpleNamespace

import pytest

from apportion.groups.admin.alive import looked_at
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, MemberRecord, encoded
from apportion.stores import Absent, Put
from apportion.stores.reaper import Counter
from tests.tables.sample import handle, memory

KEYS = GroupKeys(group="g")
RECORD = Put(key=KEYS.record, value=encoded(GroupRecord(partitions=2)))


async def looked(*reads):
    """Look at a group of members a and b, whose leases are read as told, the last read again and again."""
    store, left = handle(memory()), list(reads)
    leases = [(await store.grant(ttl_seconds=10)).id for _ in "ab"]
    puts = [
        Put(key=KEYS.member(each), value=encoded(MemberRecord(nonce="n")), lease=lease)
        for each, lease in zip("ab", leases, strict=True)
    ]
    await store.commit(when=[Absent(key=put.key) for put in (RECORD, *puts)], puts=[RECORD, *puts])

    async def renewals():
        pairs = zip(leases, left.pop(0) if len(left) > 1 else left[0], (0.2, 0.4), strict=False)
        return [Counter(lease=lease, renewals=count, ttl_seconds=ttl) for lease, count, ttl in pairs]

    found = await looked_at(store, SimpleNamespace(renewals=renewals), "g")
    return found.unseen, found.looked_seconds


@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        ([(3, 3)], (("a", "b"), 0.2)),
        ([(3, 3), (3, 4)], ((), 0.0)),
        ([(3, 3), (3, 3), (4, 3)], ((), 0.0)),
        ([(3, 3), (3,)], ((), 0.0)),
        ([()], ((), 0.0)),
    ],
    ids=["nobody renews", "one renews", "one renews later", "a lease has ended", "no lease is counted"],
)
def test_members_are_unseen_when_no_lease_moves_for_half_of_the_longest_time_to_live(reads, expected):
    assert expected == asyncio.run(looked(*reads))
