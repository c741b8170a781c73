"""A call that is cancelled, at any turn of any loop, leaves nothing behind: here on a file of SQLite."""

import asyncio
import logging
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from tests.groups.cancelled import CALLS, Cancelled


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.ERROR, "apportion.group")


def leases(path):
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT count(*) FROM lease").fetchone()[0]


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_left_of_a_call_that_is_cancelled_at_any_turn_of_its_own_loop(tmp_path, call):
    cancelled = Cancelled(f"sqlite:///{tmp_path / 's.db'}", leases=lambda: leases(tmp_path / "s.db"))
    turns, found = asyncio.run(cancelled.left(call, is_here=True))
    assert {} == found
    assert turns > 3


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_left_of_a_call_that_is_cancelled_at_many_a_turn_of_the_io_thread(tmp_path, call):
    cancelled = Cancelled(f"sqlite:///{tmp_path / 's.db'}", leases=lambda: leases(tmp_path / "s.db"))
    turns, found = asyncio.run(cancelled.left(call, step=5, is_here=False))
    assert {} == found
    assert turns > 1


CANCELLED_AT_ITS_END = """if True:
    import asyncio, sys
    from datetime import timedelta
    import apportion

    async def main():
        block = apportion.open_group(sys.argv[1], "g", partitions=4, lease_ttl=timedelta(seconds=60))
        group = await block.__aenter__()
        await group.wait_until_settled()
        leaving = asyncio.create_task(block.__aexit__(None, None, None))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
        print(leaving.cancelled())

    asyncio.run(main())
"""
HOLDS_ON = """if True:
    import signal, sys
    from datetime import timedelta
    from apportion import sync

    def interrupt(*_):
        raise KeyboardInterrupt

    block = sync.open_group(sys.argv[1], "g", partitions=4, lease_ttl=timedelta(seconds=60))
    group = block.__enter__()
    group.wait_until_settled()
    hold = group.hold(0)
    hold.__enter__()
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        block.__exit__(None, None, None)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.slow
def test_a_process_that_ends_waits_for_a_member_whose_leaving_was_cancelled(tmp_path):
    path = tmp_path / "s.db"
    done = subprocess.run(
        [sys.executable, "-c", CANCELLED_AT_ITS_END, f"sqlite:///{path}"],
        capture_output=True, check=False, text=True, timeout=60,
    )  # fmt: skip
    assert (0, "True\n") == (done.returncode, done.stdout), done.stderr
    assert 0 == leases(path)


@pytest.mark.slow
def test_a_process_that_ends_says_after_a_second_that_it_waits_and_ends_all_the_same(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", HOLDS_ON, f"sqlite:///{tmp_path / 's.db'}"],
        capture_output=True, check=False, text=True, timeout=60,
    )  # fmt: skip
    assert (0, "interrupted\n") == (done.returncode, done.stdout), done.stderr
    assert "the process ends after its groups have left, in at most 5 s" in done.stderr
