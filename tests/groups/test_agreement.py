"""Agreement: a process that was in its group never ends for the record of it, and one that never was is told."""

import asyncio
import json
import logging
from contextlib import suppress
from dataclasses import replace

import pytest

from apportion.errors import BadSnapshot, InvalidInput
from apportion.groups.agreement import Agreement
from apportion.groups.driver import Driver
from apportion.groups.log import log
from apportion.groups.session import Sessions
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import (
    FORMAT,
    GroupRecord,
    MemberRecord,
    OwnershipRecord,
    Target,
    encoded,
    encoded_target,
)
from apportion.runtime.clock import SystemClock
from apportion.stores import Absent, Committed, Put, Unchanged
from tests.groups.test_driver import OPTIONS, plays
from tests.tables.sample import handle, memory

KEYS, RECORD = GroupKeys(group="g"), GroupRecord(partitions=2)
FEW = encoded_target(Target(generation=1, digest="d", owners=("a",)))


async def over(store, **values):
    """Write over some records in one commit, each on the lease that was there; return the revision."""
    keys = {"group": KEYS.record, "target": KEYS.target, "controller": KEYS.controller, "member": KEYS.member("a")}
    keys |= {f"own{each}": KEYS.own(each) for each in range(4)}
    while True:
        there = {item.key: item for item in (await store.scan("")).items}
        named = {keys[each]: value for each, value in values.items()}
        when = [Unchanged(key=key, revision=there[key].revision) if key in there else Absent(key=key) for key in named]
        puts = [
            Put(key=key, value=value, lease=there[key].lease if key in there else None) for key, value in named.items()
        ]
        if isinstance(outcome := await store.commit(when=when, puts=puts), Committed):
            return outcome.revision


async def value_of(store, key):
    return next(item.value for item in (await store.scan(key)).items if item.key == key)


def serves_all(driver):
    return driver.member.me.session and {0, 1} == set(driver.holdings) and not driver.view.damaged


async def until(driver, is_so):
    while not is_so():
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await driver.turn()


@pytest.mark.parametrize(
    "damage",
    [
        {"group": b"{}", "target": FEW},
        {"group": encoded(replace(RECORD, partitions=1)), "target": b"\xff"},
        {"group": encoded(replace(RECORD, partitions=4)), "target": FEW},
        {"group": encoded(replace(RECORD, mode="eager"))},
        {"group": encoded(replace(RECORD, balancer="minimal")), "target": FEW},
        {"group": b"\xff", "target": b"\xff", "own0": b"\xff", "own1": b"\xff"},
    ],
)
def test_a_member_outlives_all_records_of_its_group_damaged_in_one_commit(damage):
    async def story(store, driver, running):
        await until(driver, lambda: serves_all(driver))
        session = driver.member.me.session
        await over(store, controller=b"", member=b"{}", **damage)
        await until(driver, lambda: driver.member.me.session not in (0, session))
        for each in range(2):
            if f"own{each}" in damage:
                revision = (await store.scan(KEYS.live)).revision
                await over(store, **{f"own{each}": encoded(OwnershipRecord(epoch=revision))})
        await until(driver, lambda: serves_all(driver))
        assert not running.done()
        assert encoded(RECORD) == await value_of(store, KEYS.record)

    plays(story)


@pytest.mark.parametrize("changed", [{"mode": "eager"}, {"balancer": "minimal"}, {"quarantine_after": 3}])
def test_a_setting_that_never_changes_is_written_anew_unless_somebody_joined_under_it(changed):
    async def main():
        store = handle(memory())
        agreement = Agreement(store, "g", RECORD, log)
        async with asyncio.timeout(5):
            await agreement.reached(is_over=lambda: False)
            await over(store, group=encoded(replace(RECORD, **changed)))
            with pytest.raises(InvalidInput, match="of group g is"):
                await Agreement(store, "g", RECORD, log).reached(is_over=lambda: False)
            await agreement.reached(is_over=lambda: False)
            assert encoded(RECORD) == await value_of(store, KEYS.record)
            await over(store, group=encoded(replace(RECORD, **changed)))
            lease = (await store.grant(ttl_seconds=60)).id
            put = Put(key=KEYS.member("b"), value=encoded(MemberRecord(nonce="b")), lease=lease)
            assert isinstance(await store.commit(when=[Absent(key=put.key)], puts=[put]), Committed)
            with pytest.raises(BadSnapshot):
                await agreement.reached(is_over=lambda: True)

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize(
    "said",
    [
        encoded(replace(RECORD, partitions=3)),
        json.dumps(json.loads(encoded(RECORD)) | {"format": FORMAT + 1}).encode(),
    ],
)
def test_a_member_waits_until_its_group_is_as_it_was_and_says_so_once(said, caplog):
    async def story(store, driver, running):
        await until(driver, lambda: serves_all(driver))
        target = encoded_target(Target(generation=1, digest="d", owners=(None,) * 3))
        await over(store, group=said, target=target, own2=encoded(OwnershipRecord(owner="b", session=1, epoch=1)))
        driver.parts.inbox.hear(ZeroDivisionError("planted"))
        scans = store.scans
        await until(driver, lambda: store.scans > scans + 2)
        assert (False, 0) == (running.done(), driver.member.me.session)
        assert 1 == sum("waits until its group has its former settings" in each.getMessage() for each in caplog.records)
        await over(store, group=encoded(RECORD))
        await until(driver, lambda: serves_all(driver))

    caplog.set_level(logging.WARNING, "apportion.group")
    plays(story)


def test_who_waits_for_its_group_may_leave():
    async def story(store, driver, running):
        await until(driver, lambda: serves_all(driver))
        three = encoded_target(Target(generation=1, digest="d", owners=(None,) * 3))
        await over(store, group=encoded(replace(RECORD, partitions=3)), target=three)
        driver.parts.inbox.hear(ZeroDivisionError("planted"))
        await until(driver, lambda: not driver.member.me.session)
        driver.leave()
        await running

    plays(story)


def test_a_process_that_never_was_in_a_group_is_told_the_number_that_two_witnesses_say():
    async def main():
        shared = memory()
        store = handle(shared)
        owned = encoded(OwnershipRecord(owner="b", session=1, epoch=1))
        few = encoded_target(Target(generation=1, digest="d", owners=("b",) * 3))
        await over(store, group=encoded(replace(RECORD, partitions=2)), target=few, own2=owned)
        options = replace(OPTIONS, record=replace(RECORD, partitions=4))
        driver = Driver(handle(shared), Sessions(handle(shared), SystemClock()), SystemClock(), options)
        with pytest.raises(InvalidInput, match="partitions of group g is 4, expected 3"):
            await driver.run()

    asyncio.run(main())


def test_a_process_that_never_was_in_a_group_does_not_believe_its_record_against_two_witnesses():
    async def main():
        store = handle(memory())
        owned = {f"own{each}": encoded(OwnershipRecord(owner="b", session=1, epoch=1)) for each in range(3)}
        three = encoded_target(Target(generation=1, digest="d", owners=("b",) * 3))
        await over(store, group=encoded(RECORD), target=three, **owned)
        with pytest.raises(InvalidInput, match="partitions of group g is 2, expected 3"):
            await Agreement(store, "g", RECORD, log).reached(is_over=lambda: False)
        await over(store, own2=encoded(OwnershipRecord(epoch=2)))
        async with asyncio.timeout(5):
            await Agreement(store, "g", RECORD, log).reached(is_over=lambda: False)
        assert encoded(RECORD) == await value_of(store, KEYS.record)

    asyncio.run(main())
