"""`echo URL | python -m bench.member NAME TTL`: one member of a group, as a process that can be killed.

It holds a lease of TTL seconds with the key `member/NAME`, renews it three times in that time, and watches the others.
"""

import asyncio
import sys

from apportion.stores import Absent, Committed, CoordinationStore, Put, connect


async def main(url: str, name: str, ttl_seconds: float) -> None:
    """Be a member until killed."""
    store = await connect(url)
    lease = await store.grant(ttl_seconds=ttl_seconds)
    key = f"member/{name}"
    written = await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=b"", lease=lease.id)])
    if not isinstance(written, Committed):
        raise SystemExit(f"{key} could not be written: {written}")
    await asyncio.gather(_renew(store, lease.id, ttl_seconds / 3), _watch(store, written.revision))


async def _renew(store: CoordinationStore, lease: int, pause_seconds: float) -> None:
    while True:
        await asyncio.sleep(pause_seconds)
        if lease not in await store.renew([lease]):
            raise SystemExit("the lease was ended while its holder lived")


async def _watch(store: CoordinationStore, after: int) -> None:
    async for _ in store.watch("member/", after=after):
        pass


if __name__ == "__main__":
    asyncio.run(main(sys.stdin.readline().strip(), sys.argv[1], float(sys.argv[2])))
