"""Starts and exits that take long say so, and what they wait for; where nothing of logging is set up, too."""

import asyncio
import subprocess
import sys
import threading
from contextlib import ExitStack
from datetime import timedelta

import pytest

import apportion
from apportion import sync
from apportion.errors import DuplicateMember
from apportion.groups import participation
from apportion.runtime import waits
from tests.console.grouping import eventually

TTL = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Let a long wait be a short one."""
    monkeypatch.setattr(waits.Saying.__init__, "__kwdefaults__", {"first_seconds": 0.2})
    monkeypatch.setattr(waits, "AGAIN_SECONDS", 0.2)
    monkeypatch.setattr(participation, "AGAIN_SECONDS", 0.2)


@pytest.fixture
def open_member(tmp_path):
    return lambda name, **options: sync.open_group(
        f"sqlite:///{tmp_path / 'work.db'}", "mailers", partitions=2, member_id=name, lease_ttl=TTL, **options
    )


@pytest.mark.slow
def test_a_start_says_that_it_waits_for_another_of_its_id(open_member, caplog):
    with open_member("ann"), pytest.raises(DuplicateMember), open_member("ann"):
        pass
    lines = [line for line in caplog.messages if "joins and waits" in line]
    assert len(lines) > 1
    assert all(line.startswith("mailers: ann joins and waits for session ") for line in lines)
    assert all("of the same id to end, for " in line for line in lines)


def test_an_exit_says_which_work_it_waits_for(open_member, caplog):
    with ExitStack() as work:
        with open_member("ann") as group:
            group.wait_until_settled()
            work.enter_context(group.hold(1))
            release = threading.Timer(0.7, work.close)
            release.start()
        release.join()
    [line, *_] = [line for line in caplog.messages if "leaves and waits" in line]
    assert line.startswith("mailers: ann leaves and waits for the work on partition 1 to end, for ")


def test_a_member_that_was_asked_to_leave_within_its_block_says_which_work_it_waits_for(open_member, caplog):
    def said():
        return [line for line in caplog.messages if "leaves and waits for the work on partition 1 to end, for " in line]

    with open_member("ann") as group:
        group.wait_until_settled()
        with group.hold(1):
            group.leave()
            eventually(lambda: len(said()) >= 2)
        before = len(said())
    assert before == len(said())


def test_a_member_that_has_left_says_that_its_block_goes_on_until_that_has_ended(open_member, caplog):
    def said():
        return sum("ann has left, and its block has not ended, for" in line for line in caplog.messages)

    with open_member("ann") as group:
        group.leave()
        eventually(lambda: said() >= 2)
    before = said()
    with open_member("bob") as group:
        group.wait_until_settled()
        assert before == said()


def test_a_start_says_that_it_waits_for_a_store_that_does_not_answer(caplog):
    async def main():
        async def silent(reader, writer):
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1")
        port = server.sockets[0].getsockname()[1]
        url = f"postgresql://ann:s3cr3t@127.0.0.1:{port}/work?sslmode=disable"
        async with server:
            opening = asyncio.ensure_future(
                apportion.open_group(url, "mailers", partitions=2, member_id="ann").__aenter__()
            )
            while not any("waits for" in line for line in caplog.messages):
                assert not opening.done()
                await asyncio.sleep(0.02)
            opening.cancel()
            await asyncio.wait([opening])

    asyncio.run(main())
    assert any(line.startswith("mailers: ann waits for postgresql://127.0.0.1:") for line in caplog.messages)
    assert "s3cr3t" not in caplog.text


@pytest.mark.slow
def test_a_quick_start_and_exit_say_nothing_and_a_slow_one_is_read_without_any_logging_set_up(tmp_path):
    story = """
import sys
from apportion import sync
from apportion.runtime import waits
waits.Saying.__init__.__kwdefaults__["first_seconds"] = float(sys.argv[2])
with sync.open_group(f"sqlite:///{sys.argv[1]}/work.db", "mailers", partitions=2, member_id="ann") as group:
    group.wait_until_settled()
"""
    said = [
        subprocess.run([sys.executable, "-c", story, tmp_path, each], capture_output=True, check=True, text=True).stderr
        for each in ("1", "0")
    ]
    assert "" == said[0]
    assert "mailers: ann" in said[1]
