"""Groups as users open them, on a file of SQLite: joining, holding, handing over, leaving, and bad input."""

import asyncio
import logging
import threading
import time
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

import apportion
from apportion import sync
from apportion.errors import DuplicateMember, InvalidInput, NotOwner, NotPromised, UnknownOption
from apportion.guards import note
from tests.console.grouping import eventually

TTL = timedelta(seconds=1)
PATIENCE_SECONDS = 20


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'group.db'}"


def opened(url, member_id, *, partitions=8, **options):
    return apportion.open_group(url, "g", partitions=partitions, member_id=member_id, lease_ttl=TTL, **options)


def run(work):
    async def bounded():
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await work

    return asyncio.run(bounded())


async def until(is_so):
    while not is_so():
        await asyncio.sleep(0.01)


@pytest.mark.slow
def test_a_lone_member_owns_everything_and_a_second_one_half(url):
    async def main():
        async with opened(url, "a") as first:
            await first.wait_until_settled()
            assert list(range(8)) == list(first.owned)
            kept = dict(first.owned)
            async with opened(url, "b") as second:
                await second.wait_until_settled()
                await until(lambda: len(first.owned) == 4)
                assert set(range(8)) == {*first.owned, *second.owned}
                assert all(first.owned[partition] is kept[partition] for partition in first.owned)
                assert ["a", "b"] == list(await first.members())
            await until(lambda: len(first.owned) == 8)
            moved = [each for each in range(8) if first.owned[each] is not kept[each]]
            assert all(first.owned[each].token > kept[each].token for each in moved)
            assert 4 == len(moved)

    run(main())


@pytest.mark.slow
def test_a_partition_is_handed_over_when_the_last_hold_on_it_has_ended(url):
    async def main():
        async with opened(url, "a") as first:
            await first.wait_until_settled()
            async with AsyncExitStack() as holds:
                for partition in range(8):
                    await holds.enter_async_context(first.hold(partition))
                second = opened(url, "b")
                entering = asyncio.ensure_future(second.__aenter__())
                await until(lambda: len(first.owned) == 4)
                given = sorted(set(range(8)) - set(first.owned))
                group = await entering
                assert [] == list(group.owned)
                with pytest.raises(NotOwner, match="is not ours"):
                    await holds.enter_async_context(first.hold(given[0]))
            await until(lambda: sorted(group.owned) == given)
            await second.__aexit__(None, None, None)

    run(main())


@pytest.mark.slow
def test_what_was_lost_goes_on_when_the_consumer_asks_again(url):
    async def main():
        async with opened(url, "a") as first:
            changes = first.changes()
            assert tuple(range(8)) == (await anext(changes)).gained
            async with opened(url, "b") as second:
                asking = asyncio.ensure_future(anext(changes))
                lost = (await asking).lost
                assert (4, []) == (len(lost), list(second.owned))
                asking = asyncio.ensure_future(anext(changes))
                await until(lambda: tuple(second.owned) == lost)
            assert lost == (await asking).gained
            await changes.aclose()

    run(main())


@pytest.mark.slow
def test_work_that_outlives_its_drain_is_cancelled(url):
    async def main():
        async with opened(url, "a", drain_timeout=timedelta(seconds=0.3)) as first:
            await first.wait_until_settled()

            async def endless(partition):
                async with first.hold(partition):
                    await asyncio.Event().wait()

            working = [asyncio.ensure_future(endless(partition)) for partition in range(8)]
            async with opened(url, "b") as second:
                await until(lambda: len(second.owned) == 4)
                done = [task for task in working if task.done()]
                assert [NotOwner] * 4 == [type(task.exception()) for task in done]
            for task in working:
                task.cancel()
            await asyncio.wait(working)

    run(main())


def test_handlers_are_called_until_they_succeed_and_one_at_a_time(url):
    async def main():
        calls, failures = [], {3}

        async def gained(partition, token):
            calls.append(("gained", partition, token.epoch))
            if partition in failures:
                failures.clear()
                raise OSError("not yet")

        async def lost(partition, token):
            calls.append(("lost", partition, token.epoch))

        async with opened(url, "a") as group:
            serving = asyncio.ensure_future(group.serve(on_gained=gained, on_lost=lost))
            await until(lambda: len(calls) == 9)
            await until(lambda: not group.failing)
            group.leave()
            await serving
        assert [("gained", 3, 1)] * 2 == [call for call in calls if call[:2] == ("gained", 3)]
        assert {("lost", partition, 1) for partition in range(8)} == set(calls[9:])

    run(main())


def test_the_sync_twin_does_the_same(url):
    with sync.open_group(url, "twin", partitions=4, member_id="a", lease_ttl=TTL) as group:
        group.wait_until_settled()
        with group.hold(2) as token:
            assert ("twin/2", token) == (token.resource, group.token("2"))
        for wrong in (4, -1, "4", True, None):
            with pytest.raises(InvalidInput, match=r"partition is .* one of 0 \.\. 3"):
                group.token(wrong)
        assert (True, True, frozenset({2})) == (group.is_ready, group.is_alive, group.unguarded)
        changes = group.changes()
        assert (0, 1, 2, 3) == next(changes).gained
        threading.Timer(0.1, group.leave).start()
        assert (0, 1, 2, 3) == next(changes).lost
        assert [] == list(changes)
        assert (False, False) == (group.is_ready, group.is_alive)


def test_work_without_a_guard_is_told_at_once_and_all_of_it_when_the_group_is_left(url, caplog):
    with caplog.at_level(logging.WARNING, "apportion.group"), sync.open_group(url, "w", partitions=4) as group:
        group.wait_until_settled()
        note(group.token(2))
        for partition in (2, 1, 0):
            with group.hold(partition):
                pass
        said = "w: no guard saw a token of these partitions: 1; see group.unguarded"
        eventually(lambda: [said] == [each.message for each in caplog.records if each.name == "apportion.group"])
    assert {0, 1} == group.unguarded
    assert "w: no guard saw a token of these partitions: 0, 1" in caplog.text


def test_a_leader_is_followed_by_another_with_a_higher_token(url):
    with sync.leader(url, "boss", member_id="a", lease_ttl=TTL) as first:
        before = first.wait_until_elected()
        with sync.leader(url, "boss", member_id="b", lease_ttl=TTL) as second:
            assert (True, False) == (first.is_leader, second.is_leader)
            with pytest.raises(NotOwner):
                _ = second.token
            first.resign()
            assert second.wait_until_elected() > before
            assert not first.is_leader


def test_who_has_resigned_waits_for_no_election_and_is_told_to_stand_again(url):
    async def story():
        async with apportion.leader(url, "boss", member_id="b", lease_ttl=TTL) as second:
            second.resign()
            with pytest.raises(NotOwner, match="has resigned") as raised:
                await second.wait_until_elected()
            assert "apportion.leader" in raised.value.hint

    with sync.leader(url, "boss", member_id="a", lease_ttl=TTL) as first:
        first.wait_until_elected()
        run(story())
        first.resign()
        for _ in range(2):  # before all is handed over, and after it
            with pytest.raises(NotOwner, match="has resigned") as raised:
                first.wait_until_elected()
            assert "apportion.sync.leader" in raised.value.hint
            while first.is_leader:
                time.sleep(0.01)


def test_who_resigns_while_it_waits_to_be_elected_is_told_so(url):
    async def story():
        async with apportion.leader(url, "boss", member_id="b", lease_ttl=TTL) as second:
            waiting = asyncio.ensure_future(second.wait_until_elected())
            await asyncio.sleep(0)
            second.resign()
            with pytest.raises(NotOwner, match="has resigned"):
                await asyncio.wait_for(waiting, 10)

    with sync.leader(url, "boss", member_id="a", lease_ttl=TTL) as first:
        first.wait_until_elected()
        run(story())


def test_one_consumer_of_changes(url):
    with sync.open_group(url, "g", partitions=2, drain_timeout=timedelta(seconds=0.1), lease_ttl=TTL) as group:
        changes = group.changes()
        next(changes)
        with pytest.raises(InvalidInput, match=r"consumer of changes\(\)"):
            next(group.changes())


@pytest.mark.slow
def test_an_id_whose_session_lives_elsewhere_is_refused(url):
    with sync.open_group(url, "g", partitions=2, member_id="a", lease_ttl=TTL) as group:
        with pytest.raises(DuplicateMember, match="'a' is there already"):
            sync.open_group(url, "g", partitions=2, member_id="a", lease_ttl=TTL).__enter__()
        assert group.is_alive


@pytest.mark.parametrize(
    ("options", "error", "field"),
    [
        ({"partitions": 0}, InvalidInput, "partitions"),
        ({"partitions": 2**18 + 1}, InvalidInput, "partitions"),
        ({"partitions": True}, InvalidInput, "partitions"),
        ({"mode": "greedy"}, UnknownOption, "mode"),
        ({"balancer": "optimum"}, UnknownOption, "balancer"),
        ({"member_id": "a\nb"}, InvalidInput, "member_id"),
        ({"member_id": "a/b"}, InvalidInput, "member_id"),
        ({"lease_ttl": 10}, InvalidInput, "lease_ttl"),
        ({"lease_ttl": timedelta(0)}, InvalidInput, "lease_ttl"),
        ({"progress_deadline": timedelta(0)}, InvalidInput, "progress_deadline"),
        ({"rejoin_grace": timedelta(1)}, InvalidInput, "rejoin_grace"),
        ({"static": True, "member_id": None}, InvalidInput, "member_id"),
        ({"throttle": 0}, InvalidInput, "throttle"),
        ({"labels": {"a": 1}}, InvalidInput, "labels"),
        ({"labels": ["a"]}, InvalidInput, "labels"),
        ({"labels": "a=b"}, InvalidInput, "labels"),
        ({"zone": "eu"}, InvalidInput, "zone"),
        ({"zone": 7}, InvalidInput, "zone"),
        ({"zone": ("eu", "")}, InvalidInput, "zone level"),
        ({"weight": -1.0}, InvalidInput, "weight"),
    ],
)
def test_bad_input_is_refused_before_anything_is_opened(options, error, field):
    with pytest.raises(error) as raised:
        apportion.open_group("sqlite:///never.db", "g", **({"partitions": 4, "member_id": "a"} | options))
    assert field in raised.value.field


def test_who_says_otherwise_than_the_group_is_refused(url):
    with sync.open_group(url, "g", partitions=4, member_id="a"):
        with pytest.raises(InvalidInput, match="partitions of group g is 5, expected 4, as the group was made"):
            sync.open_group(url, "g", partitions=5, member_id="b").__enter__()
        with pytest.raises(InvalidInput, match=r"mode of group g is 'eager'(.|\n)*another name may"):
            sync.open_group(url, "g", partitions=4, mode="eager", member_id="b").__enter__()


def test_a_zone_may_be_a_list_or_nothing():
    zones = [apportion.open_group("sqlite:///never.db", "g", partitions=4, zone=zone) for zone in (["eu", "r1"], ())]
    assert [("eu", "r1"), ()] == [each.options.member.zone for each in zones]


def test_a_name_that_no_table_can_have_is_refused_as_that_of_a_group():
    for opening in (apportion.open_group, sync.open_group):
        assert "é" * 100 == opening("sqlite:///never.db", "é" * 100, partitions=4).options.group
        with pytest.raises(InvalidInput, match=r"name of the group is 'é.*, expected at most 200 bytes"):
            opening("sqlite:///never.db", "é" * 100 + "x", partitions=4)
    with pytest.raises(InvalidInput, match=r"name of the group is .*, expected at most 200 bytes"):
        apportion.leader("sqlite:///never.db", "x" * 201)


def test_a_lease_that_the_store_cannot_keep_is_refused_under_the_name_that_it_was_passed(url):
    with pytest.raises(
        InvalidInput, match=r"lease_ttl is '0:00:00.001000', expected .* 0\.5 to 604800 seconds"
    ) as raised:
        sync.open_group(url, "g", partitions=4, lease_ttl=timedelta(milliseconds=1)).__enter__()
    assert "lease_ttl" == raised.value.field


def test_redis_is_refused_for_what_it_cannot_promise():
    with pytest.raises((NotPromised, apportion.ApportionError)):
        sync.open_group("redis://127.0.0.1:1/0", "g", partitions=4).__enter__()


def test_a_member_that_is_replaced_leaves_and_its_successor_of_the_same_id_comes(url):
    with sync.open_group(url, "g", partitions=4, member_id="a", lease_ttl=TTL) as old:
        old.wait_until_settled()
        with sync.open_group(url, "g", partitions=4, member_id="a", lease_ttl=TTL, replace=True) as new:
            new.wait_until_settled()
            assert (4, 0) == (len(new.owned), len(old.owned))
            assert not old.is_alive


def test_work_whose_event_loop_was_closed_is_given_up_and_others_take_over(url):
    async def begin():
        opening = opened(url, "a", partitions=4, drain_timeout=timedelta(seconds=0.2))
        group, held = await opening.__aenter__(), asyncio.Event()

        async def hold():
            async with group.hold(0):
                held.set()
                await asyncio.Event().wait()

        await group.wait_until_settled()
        working = asyncio.create_task(hold())
        await held.wait()
        return opening, group, working

    loop = asyncio.new_event_loop()
    opening, group, _working = loop.run_until_complete(begin())
    loop.close()
    with sync.open_group(url, "g", partitions=4, member_id="b", lease_ttl=TTL) as other:
        group.leave()
        ends = time.monotonic() + PATIENCE_SECONDS
        while len(other.owned) < 4:
            assert time.monotonic() < ends, group.sight()
            time.sleep(0.01)
    asyncio.run(opening.__aexit__(None, None, None))


def test_a_group_shows_its_member_and_its_partitions_in_one_line_and_in_a_notebook(url):
    async def main():
        async with opened(url, "a<b>") as group:
            await group.wait_until_settled()
            assert "AsyncGroup('g', member 'a<b>', 8 partitions owned)" == repr(group)
            fragment = group._repr_html_()
            assert "member &#x27;a&lt;b&gt;&#x27;" in fragment
            assert [f">{partition}</td>" in fragment for partition in range(8)] == [True] * 8
            assert str(group.owned[3].token) in fragment
        assert "AsyncGroup('g', member 'a<b>', 0 partitions owned)" == repr(group)
        assert "<tr>" not in group._repr_html_()

    run(main())
