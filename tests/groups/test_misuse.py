"""Misuse is answered at once, by an error of ours that names the call to write."""

import asyncio
import subprocess
import sys
from datetime import timedelta
from types import SimpleNamespace

import pytest

import apportion
from apportion import sync
from apportion.errors import InvalidInput, NotOwner, StoreClosed, UnknownOption
from apportion.groups.facade import AsyncGroup
from apportion.groups.holdings import Holdings
from apportion.runtime.clock import SystemClock
from apportion.sync import SyncGroup

TTL = timedelta(seconds=5)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 's.db'}"


ASYNC = {
    "open_group": lambda url: apportion.open_group(url, "g", partitions=2, lease_ttl=TTL),
    "leader": lambda url: apportion.leader(url, "l", lease_ttl=TTL),
    "open_store": apportion.open_store,
    "follow": lambda url: apportion.follow(url, "t"),
}
SYNC = {
    "sync.open_group": lambda url: sync.open_group(url, "g", partitions=2, lease_ttl=TTL),
    "sync.leader": lambda url: sync.leader(url, "l", lease_ttl=TTL),
    "sync.open_store": sync.open_store,
    "sync.follow": lambda url: sync.follow(url, "t"),
}


async def awaited(thing):
    return await thing


async def entered(thing):
    async with thing:
        raise AssertionError("entered")


@pytest.mark.parametrize("name", ASYNC)
def test_an_async_block_that_is_entered_or_awaited_otherwise_names_the_call_to_write(url, name):
    said = rf"Write: async with apportion\.{name}\(.*\) as opened:"
    with pytest.raises(InvalidInput, match=f"is 'with', expected 'async with'.\n{said}"), ASYNC[name](url):
        raise AssertionError("entered")
    with pytest.raises(InvalidInput, match=f"is 'await', expected 'async with'.\n{said}"):
        asyncio.run(awaited(ASYNC[name](url)))
    with pytest.raises(AttributeError, match=rf"owned: nothing is open yet. Write: async with apportion\.{name}\("):
        _ = ASYNC[name](url).owned


@pytest.mark.parametrize("name", SYNC)
def test_a_sync_block_that_is_entered_or_awaited_otherwise_names_the_call_to_write(url, name):
    said = rf"Write: with apportion\.{name}\(.*\) as opened:"
    with pytest.raises(InvalidInput, match=f"is 'async with', expected 'with'.\n{said}"):
        asyncio.run(entered(SYNC[name](url)))
    with pytest.raises(InvalidInput, match=f"is 'await', expected 'with'.\n{said}"):
        asyncio.run(awaited(SYNC[name](url)))


@pytest.mark.parametrize("name", ["open_group", "open_store"])
def test_a_block_that_is_entered_a_second_time_within_itself_is_refused_and_may_be_entered_after_it(url, name):
    async def story():
        block = ASYNC[name](url)
        async with block:
            with pytest.raises(InvalidInput, match="is 2, expected one at a time"):
                await block.__aenter__()
        async with block:
            return True

    assert asyncio.run(story())
    block = SYNC[f"sync.{name}"](url)
    with block, pytest.raises(InvalidInput, match="is 2, expected one at a time"):
        block.__enter__()
    with block:
        pass


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ("", InvalidInput),
        ("work.db", InvalidInput),
        ("sqlite://work.db", InvalidInput),
        ("sqlite:///work.db?foo=1", UnknownOption),
        ("postgres://host/database", UnknownOption),
        ("postgresql://host", InvalidInput),
        ("postgresql://host:99999/database", InvalidInput),
        ("etcd://", InvalidInput),
        (None, InvalidInput),
    ],
)
@pytest.mark.parametrize("name", [*ASYNC, *SYNC])
def test_a_url_that_no_store_can_have_is_refused_where_it_is_given(name, wrong, error):
    with pytest.raises(error, match="URL"):
        (ASYNC | SYNC)[name](wrong)


def test_a_hold_that_is_kept_and_entered_a_second_time_names_the_call_to_write(url):
    async def story():
        async with apportion.open_group(url, "g", partitions=2, member_id="a", lease_ttl=TTL) as group:
            await group.wait_until_settled()
            hold = group.hold(0)
            async with hold:
                pass
            with pytest.raises(InvalidInput, match=r"Write for each block: async with group.hold\(partition\)"):
                await entered(hold)

    asyncio.run(story())
    with sync.open_group(url, "g", partitions=2, member_id="b", lease_ttl=TTL) as group:
        group.wait_until_settled()
        hold = group.hold(0)
        with hold, pytest.raises(InvalidInput, match=r"Write for each block: with group.hold\(partition\)"):
            hold.__enter__()
        assert not group._participation.holdings._holds


def test_a_hold_that_is_entered_otherwise_names_the_call_to_write(url):
    async def story():
        async with apportion.open_group(url, "g", partitions=2, member_id="a", lease_ttl=TTL) as group:
            await group.wait_until_settled()
            with pytest.raises(InvalidInput, match=r"Write: async with group.hold\(partition\)"), group.hold(0):
                raise AssertionError("entered")
            with pytest.raises(InvalidInput, match=r"Write: async with group.hold\(partition\)"):
                await awaited(group.hold(0))
            assert not group._participation.holdings._holds

    asyncio.run(story())
    with (
        sync.open_group(url, "g", partitions=2, member_id="b", lease_ttl=TTL) as group,
        pytest.raises(InvalidInput, match=r"Write: with group.hold\(partition\)"),
    ):
        asyncio.run(entered(group.hold(0)))


def test_what_is_asked_of_a_group_after_its_block_says_that_the_block_has_ended(url):
    async def story():
        async with apportion.open_group(url, "g", partitions=2, lease_ttl=TTL) as group:
            await group.wait_until_settled()
        for call in (group.wait_until_settled, group.members, group.changes().__anext__, group.serve):
            with pytest.raises(StoreClosed, match=r"group g is dead: the block .* has ended.\n.*open_group"):
                await call()
        with pytest.raises(NotOwner, match=r"the block .* has ended.\n.*open_group"):
            await entered(group.hold(0))
        with pytest.raises(NotOwner, match=r"the block .* has ended"):
            group.token(0)
        group.leave()
        return dict(group.owned), group.is_alive

    assert ({}, False) == asyncio.run(story())
    with sync.open_group(url, "g", partitions=2, lease_ttl=TTL) as group:
        group.wait_until_settled()
    for call in (group.wait_until_settled, group.members, group.changes().__next__, group.serve):
        with pytest.raises(StoreClosed, match=r"group g is dead: the block .* has ended"):
            call()
    with pytest.raises(NotOwner, match=r"the block .* has ended"), group.hold(0):
        raise AssertionError("entered")


@pytest.mark.parametrize("call", ["changes", "serve", "wait_until_settled", "members"])
def test_a_group_whose_thread_runs_in_another_process_is_closed(call):
    options = SimpleNamespace(group="g")
    participation = SimpleNamespace(has_ended=False, options=options, driver=None, holdings=None)
    parts = participation, SimpleNamespace(runs=False)
    of_sync, of_async = getattr(SyncGroup(*parts), call), getattr(AsyncGroup(*parts), call)
    for ask in [of_sync().__next__] if call == "changes" else [of_sync, lambda: asyncio.run(of_async())]:
        with pytest.raises(StoreClosed, match="group g is dead: it belongs to the parent of this forked process"):
            ask()


def test_a_hold_in_a_child_that_was_forked_is_refused_with_the_reason():
    holdings = Holdings(SystemClock(), quiet=lambda _: None, told=lambda: None)
    holdings._process += 1
    with pytest.raises(NotOwner, match="partition 1 is not ours: it belongs to the parent of this forked process"):
        holdings.enter(1)


def test_what_is_asked_of_a_group_in_a_forked_child_says_whose_it_is(url):
    code = """if True:
        import os, sys
        from apportion import sync
        from apportion.errors import ApportionError
        with sync.open_group(sys.argv[1], "g", partitions=2) as group:
            group.wait_until_settled()
            child = os.fork()
            if child == 0:
                calls = [group.wait_until_settled, group.members, group.changes().__next__, group.serve,
                         group.hold(0).__enter__, lambda: group.token(0)]
                for call in calls:
                    try:
                        call()
                    except ApportionError as error:
                        print(type(error).__name__, "forked process" in error.problem, "open_group" in error.hint)
                group.leave()
                print(group.is_alive, group.is_ready, dict(group.owned), flush=True)
                os._exit(0)
            os.waitpid(child, 0)
            print(group.is_alive, len(group.owned))
    """
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, check=False, text=True, timeout=60)
    expected = ["StoreClosed True True"] * 4 + ["NotOwner True True"] * 2 + ["False False {}", "True 2"]
    assert (0, expected) == (done.returncode, done.stdout.splitlines()), done.stderr
