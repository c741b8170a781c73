"""The owners of 10 000 keys among 8 workers, and the keys that move when one more joins, and when one leaves.

The workers are members of a group of 64 lanes in a memory store, as each worker of a queue is.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import timedelta

import apportion
from apportion.groups.facade import AsyncGroup
from apportion.stores.keys.partitions import partition_of
from bench.goal import at_most
from bench.row import Row

WORKERS, KEYS, PARTITIONS = 8, 10_000, 64
LOAD, MOVED = at_most(1.15, "x mean"), at_most(1.1 / WORKERS, "of the keys")
_URL, _QUIET = "memory://keys_movement", timedelta(0)


def rows() -> list[Row]:
    """Let 8 workers share the keys, one more join, and it leave again; then another one."""
    return asyncio.run(_measured())


async def _measured() -> list[Row]:
    keys = [f"tenant-{number}" for number in range(KEYS)]
    lanes = [partition_of(key, PARTITIONS) for key in keys]
    async with AsyncExitStack() as stack:
        groups = [await stack.enter_async_context(_joining(f"worker-{number}")) for number in range(WORKERS)]
        before = await _owners(groups)
        busiest = max(Counter(before[lane] for lane in lanes).values()) / (KEYS / WORKERS)
        async with _joining("newcomer") as newcomer:
            joined = await _owners([*groups, newcomer])
        left = await _owners(groups)
        groups.pop().leave()
        fewer = await _owners(groups)
    return [
        Row(
            name=f"{KEYS} keys among {WORKERS} workers: the busiest",
            value=busiest,
            shown=f"{busiest:.3f} x mean",
            goal=str(LOAD),
            met=LOAD.is_met(busiest),
        ),
        _moved_row("one more worker joins", lanes, before, joined),
        _moved_row("one of nine leaves", lanes, joined, left),
        _moved_row("one of eight leaves", lanes, left, fewer),
    ]


def _joining(name: str) -> "apportion.open_group":
    return apportion.open_group(_URL, "work.bench", partitions=PARTITIONS, member_id=name, settle=_QUIET)


async def _owners(groups: list[AsyncGroup]) -> Mapping[int, str]:
    """Return the owner of each lane, once each has one and all members have their share."""
    while True:
        await asyncio.gather(*(group.wait_until_settled() for group in groups))
        owners = {lane: group.member_id for group in groups for lane in group.owned}
        if len(owners) == PARTITIONS and set(owners.values()) == {group.member_id for group in groups}:
            return owners


def _moved_row(what: str, lanes: list[int], before: Mapping[int, str], after: Mapping[int, str]) -> Row:
    share = sum(before[lane] != after[lane] for lane in lanes) / len(lanes)
    name, shown = f"{KEYS} keys, {what}: moved keys", f"{share:.4f} of the keys"
    return Row(name=name, value=share, shown=shown, goal=str(MOVED), met=MOVED.is_met(share))
