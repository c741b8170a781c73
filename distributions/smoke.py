"""Smoke: one real act of an installed extra, by an interpreter that has nothing but that extra: smoke.py EXTRA TWIN

Ends with 1 and a line when an answer is not the known one. TWIN is `native` or `reference`: the one that has to answer.
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import apportion
from apportion import native, sync
from apportion.errors import StoreUnavailable
from apportion.guards import SqlGuard
from apportion.model.epoch import FencingToken

COMMAND = Path(sys.executable).with_name("apportion")


def core() -> None:
    """Route a key and hold a group on SQLite."""
    assert apportion.Ring(["a", "b", "c"]).route("tenant-42") == "c"
    with (
        tempfile.TemporaryDirectory() as folder,
        sync.open_group(f"sqlite:///{folder}/a.db", "smoke", partitions=4) as group,
    ):
        group.wait_until_settled()
        with group.hold(3) as token:
            assert token.epoch > 0


def cli() -> None:
    """Route a key by the command."""
    assert said("route", "--nodes", "a,b,c", "tenant-1") == "tenant-1\tb\n"
    assert "checks" in said("doctor")


def demo() -> None:
    """Compare with a peer on real keys."""
    assert "uhashring" in said("tour")


def hotkeys() -> None:
    """Find a hot key."""
    assert "often" in said("hotkeys", "--keys", "-", given="often\n" * 900 + "seldom\n")


def postgres() -> None:
    """Ask a server that is not there."""
    refused("postgresql://127.0.0.1:9/nothing")


def etcd() -> None:
    """Ask a server that is not there."""
    refused("etcd://127.0.0.1:9")


def redis() -> None:
    """Ask a server that is not there."""
    refused("redis://127.0.0.1:9")


def sqlalchemy() -> None:
    """Guard a write."""
    from sqlalchemy import create_engine

    guard = SqlGuard()
    with create_engine("sqlite://").begin() as connection:
        guard.create(connection)
        guard.check(connection, FencingToken(resource="mailers/3", holder="smoke", incarnation=1, epoch=1))


def metrics() -> None:
    """Time an answer."""
    from apportion.metrics import timed

    assert timed(apportion.Ring(["a"]).route)("tenant-1") == "a"


def tasks() -> None:
    """Run a task."""
    queue = apportion.Queue("memory://smoke", "smoke")

    @queue.task()
    def double(number: int) -> int:
        return 2 * number

    async def drained() -> int:
        await queue.enqueue(double.call(7))
        return (await queue.drain()).done

    assert asyncio.run(asyncio.wait_for(drained(), 60)) == 1


def refused(url: str) -> None:
    """Open a store that nobody serves; its client package is imported, and the error is ours."""

    async def opened() -> None:
        async with apportion.open_store(url) as store:
            await store.scan("nothing")

    try:
        asyncio.run(asyncio.wait_for(opened(), 60))
    except StoreUnavailable:
        return
    raise AssertionError(f"{url} answered")


def said(*words: str, given: str = "") -> str:
    """Return what the command says."""
    done = subprocess.run([COMMAND, *words], input=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    extra, twin = sys.argv[1:]
    assert (twin == "native") == native.IN_USE, native.DETAIL
    globals()[extra]()
