"""`echo URL | python -m bench.group_member NAME PARTITIONS TTL MODE THROTTLE FATAL`: one member of a group.

It says each partition that it gains and loses, and when, in elapsed seconds of the machine: `+ 17 123.456`. SIGTERM
lets it leave. With FATAL above 0, partition 0 kills it after so many seconds.
"""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from typing import Literal, cast

import apportion
from apportion.runtime.clock import SystemClock

GROUP = "bench"
POISON = 0


async def main(url: str, arguments: list[str]) -> None:
    """Take part until SIGTERM."""
    clock = SystemClock()
    name, partitions, ttl, mode, throttle, fatal = arguments
    async with apportion.open_group(
        url,
        GROUP,
        partitions=int(partitions),
        member_id=name,
        lease_ttl=timedelta(seconds=float(ttl)),
        mode=cast("Literal['cooperative', 'eager']", mode),
        throttle=int(throttle) or None,
    ) as group:
        async for change in group.changes():
            held = {partition: group.owned.get(partition) for partition in change.gained}
            if float(fatal) and POISON in change.gained:
                asyncio.get_running_loop().call_later(float(fatal), os.kill, os.getpid(), signal.SIGKILL)
            lines = [f"+ {partition} {(got.since if got else clock.elapsed()):.6f}" for partition, got in held.items()]
            now = clock.elapsed()  # the work on what is lost ends here
            lines += [f"- {partition} {now:.6f}" for partition in change.lost]
            print("\n".join(lines), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.stdin.readline().strip(), sys.argv[1:]))
