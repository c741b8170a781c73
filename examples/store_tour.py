"""A store in one screen: compare-and-set, a lease, a watch. Pass a URL to try it on another store."""

import asyncio
import sys

from apportion import stores
from apportion.stores import Absent, Committed, Put, Unchanged


async def main(url: str) -> None:
    store = await stores.connect(url)
    try:
        begin = await store.scan("")
        first = await store.commit(when=[Absent(key="leader")], puts=[Put(key="leader", value=b"ann")])
        second = await store.commit(when=[Absent(key="leader")], puts=[Put(key="leader", value=b"bob")])
        print("ann leads:", isinstance(first, Committed), "- bob too:", isinstance(second, Committed))
        lease = await store.grant(ttl_seconds=2)  # renewed each second or so, by whoever lives
        await store.commit(when=[Absent(key="member/cay")], puts=[Put(key="member/cay", value=b"", lease=lease.id)])
        print("cay renews:", await store.renew([lease.id]) == {lease.id})
        async for change in store.watch("", after=begin.revision):  # and then cay does no longer
            print(*(f"{event.key} = {event.value!r}" for event in change.events))
            if change.events[0].value is None:
                break
        [leader] = (await store.scan("leader")).items
        ended = await store.commit(when=[Unchanged(key="leader", revision=leader.revision)], deletes=["leader"])
        print("ann steps down:", isinstance(ended, Committed))
    finally:
        await store.close()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory://"))

# Prints:
# ann leads: True - bob too: False
# cay renews: True
# leader = b'ann'
# member/cay = b''
# member/cay = None
# ann steps down: True
