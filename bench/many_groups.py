"""`echo URL | python -m bench.many_groups COUNT`: one process in many groups; it says `ready` once it owns its part."""

import asyncio
import sys
from contextlib import AsyncExitStack
from datetime import timedelta

import apportion

TTL_SECONDS, PARTITIONS = 10.0, 4


async def main(url: str, count: int) -> None:
    """Take part until killed."""
    async with AsyncExitStack() as groups:
        for number in range(count):
            ttl = timedelta(seconds=TTL_SECONDS)
            opening = apportion.open_group(url, f"group{number}", partitions=PARTITIONS, member_id="one", lease_ttl=ttl)
            group = await groups.enter_async_context(opening)
            await group.wait_until_settled()
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.stdin.readline().strip(), int(sys.argv[1])))
