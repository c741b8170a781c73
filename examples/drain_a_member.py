"""An operator's program drains a member and waits until it owns nothing. Pass a URL to try it on another store."""

import asyncio
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import apportion
from apportion.groups import admin


async def drained(url: str, name: str, member_id: str) -> None:
    change = await admin.plan(url, name, lambda members: members.drain(member_id))
    print(change.summary)
    before = await admin.drain(url, name, member_id)
    print(f"{member_id} is asked for {list(before.owned_by(member_id))}")
    left = [left async for _, left in admin.left_over(url, name, member_id)]
    print(f"{member_id} owns {left[-1]} and can be stopped")


async def main(url: str) -> None:
    async with (
        apportion.open_group(url, "mailers", partitions=8, member_id="first", settle=timedelta(0)) as first,
        apportion.open_group(url, "mailers", partitions=8, member_id="second", settle=timedelta(0)) as second,
    ):
        await second.wait_until_settled()
        await drained(url, "mailers", "second")
        await first.wait_until_settled()
        print("first owns", list(first.owned))


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{Path(folder) / 'work.db'}"))

# Prints:
# draining second moves 4 of 8 partitions (50.00%); the minimum
# second is asked for [4, 5, 6, 7]
# second owns 0 and can be stopped
# first owns [0, 1, 2, 3, 4, 5, 6, 7]
