"""A group from outside: partitions that are not settled, and a resize while a member joins."""

import asyncio
import re
from types import SimpleNamespace

import pytest

from apportion.errors import Unsafe
from apportion.groups.admin.acts import resize
from apportion.groups.admin.found import Found, read
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, MemberRecord, Target, encoded, encoded_target
from apportion.stores import Absent, Put
from tests.tables.sample import handle, memory

KEYS = GroupKeys(group="g")
RECORD = Put(key=KEYS.record, value=encoded(GroupRecord(partitions=2)))
TARGET = Put(key=KEYS.target, value=encoded_target(Target(generation=1, digest="d", owners=("a", None))))


class Raced:
    """A store in which a member joins just before or just after the first commit of a resize."""

    def __init__(self, inner, lease, *, is_before):
        self._inner, self._lease, self._is_before, self._has_joined = inner, lease, is_before, False

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def _join(self):
        self._has_joined = True
        put = Put(key=KEYS.member("late"), value=encoded(MemberRecord(nonce="n")), lease=self._lease)
        await self._inner.commit(when=[Absent(key=put.key)], puts=[put])

    async def commit(self, **request):
        if self._has_joined:
            return await self._inner.commit(**request)
        if self._is_before:
            await self._join()
        outcome = await self._inner.commit(**request)
        if not self._has_joined:
            await self._join()
        return outcome


async def raced(*, is_before, puts=(RECORD, TARGET)):
    """Resize a group to four partitions while a member joins; return the group as it is then."""
    store = handle(memory())
    await store.commit(when=[Absent(key=put.key) for put in puts], puts=puts)
    lease = (await store.grant(ttl_seconds=10)).id
    try:
        await resize(Raced(store, lease, is_before=is_before), "g", 4, "the store")
    except Unsafe as error:
        return f"{error}", await read(store, "g")
    return "", await read(store, "g")


@pytest.mark.parametrize("target", [None, Target(generation=1, digest="", owners=("a", "a"), is_paused=True)])
def test_no_partition_is_settled_while_there_is_no_target_or_the_group_pauses(target):
    view = SimpleNamespace(target=target)
    found = Found(name="g", record=GroupRecord(partitions=2), record_revision=1, view=view)
    assert ((0, 1), None) == (found.unsettled, found.wanted(0))


@pytest.mark.parametrize("puts", [(RECORD,), (RECORD, TARGET)], ids=["without a target", "with a target"])
def test_a_resize_is_undone_when_a_member_joined_before_it(puts):
    said, found = asyncio.run(raced(is_before=True, puts=puts))
    target = found.view.target
    assert ("in use by late" in said, found.damaged) == (True, ())
    assert (2, ("a", None) if TARGET in puts else None) == (found.record.partitions, target and target.owners)


def test_a_resize_stands_when_a_member_joins_after_it():
    said, found = asyncio.run(raced(is_before=False))
    assert ("", ()) == (said, found.damaged)
    assert (4, (None,) * 4) == (found.record.partitions, found.view.target.owners)


@pytest.mark.parametrize("value", [b"", b"\xff", b"[]", b"{}"])
def test_a_group_whose_record_shows_nothing_has_one_partition_and_guessed_settings(value):
    async def read_damaged():
        store = handle(memory())
        await store.commit(when=[Absent(key=KEYS.record)], puts=[Put(key=KEYS.record, value=value)])
        return await read(store, "g")

    found = asyncio.run(read_damaged())
    assert (GroupRecord(partitions=1), True) == (found.record, found.is_guessed)
    assert [KEYS.record] == [each.key for each in found.damaged]


@pytest.mark.parametrize(("count", "more"), [(8, []), (9, ["1 more"])])
def test_of_the_members_in_the_way_of_a_resize_eight_are_named_and_the_others_counted(count, more):
    async def refused():
        store = handle(memory())
        lease = (await store.grant(ttl_seconds=10)).id
        record = encoded(MemberRecord(nonce="n"))
        members = [Put(key=KEYS.member(f"m{number}"), value=record, lease=lease) for number in range(count)]
        puts = [RECORD, *members]
        await store.commit(when=[Absent(key=put.key) for put in puts], puts=puts)
        with pytest.raises(Unsafe) as raised:
            await resize(store, "g", 4, "the store")
        return str(raised.value)

    said = asyncio.run(refused())
    assert (8, more) == (len(re.findall(r"\bm\d", said)), re.findall(r"\d+ more", said))
