"""Members that are killed without warning: how long their leases live on, and whether the living lose theirs.

The time runs from the kill to the moment at which a watcher in another process sees the key of the lease go.
"""

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from time import monotonic

from apportion.stores import CoordinationStore, connect

DEADLINE_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How many seconds after each kill the lease ended, and whose lease ended though nobody killed its holder."""

    after_seconds: list[float]
    false: list[str]


async def ended_after_kills(url: str, *, members: int, kills: int, ttl_seconds: float) -> Ended:
    """Start so many members, wait for a time to live, and kill some of them one after another."""
    watcher = await connect(url)
    processes = [_member(url, str(number), ttl_seconds) for number in range(members)]
    gone: asyncio.Queue[tuple[str, float]] = asyncio.Queue()
    watching = asyncio.ensure_future(_watch(watcher, gone))
    try:
        await _all_there(watcher, members)
        await asyncio.sleep(ttl_seconds)  # every reaper has met every lease, as in a group that has run for a while
        ended = Ended(after_seconds=[], false=[])
        for victim in range(kills):
            processes[victim].kill()
            await _one_ended(str(victim), monotonic(), gone, ended)
        return ended
    finally:
        watching.cancel()
        for process in processes:
            process.kill()
            process.wait()
        await watcher.close()


async def _one_ended(victim: str, killed: float, gone: "asyncio.Queue[tuple[str, float]]", ended: Ended) -> None:
    name = ""
    while name != victim:
        name, at = await asyncio.wait_for(gone.get(), DEADLINE_SECONDS)
        if name == victim:
            ended.after_seconds.append(at - killed)
        else:
            ended.false.append(name)


def _member(url: str, name: str, ttl_seconds: float) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([sys.executable, "-m", "bench.member", name, str(ttl_seconds)], stdin=subprocess.PIPE)
    if process.stdin is not None:
        process.stdin.write(f"{url}\n".encode())  # not an argument: it may hold a password
        process.stdin.close()
    return process


async def _watch(store: CoordinationStore, gone: "asyncio.Queue[tuple[str, float]]") -> None:
    async for change in store.watch("member/", after=0):
        for event in change.events:
            if event.value is None:
                gone.put_nowait((event.key.removeprefix("member/"), monotonic()))


async def _all_there(store: CoordinationStore, count: int) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len((await store.scan("member/")).items) < count:
            await asyncio.sleep(0.05)
