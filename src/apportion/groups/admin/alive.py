"""Alive: finds out whether members are alive, by watching for a renewal of a lease in the store.

In a store that ends leases by itself, a dead member does not stay for long. In other stores members end each other's
leases. So where no lease is renewed, no member is there to end the leases of dead members.

Promises: the call returns as soon as one lease was renewed or has ended. Otherwise it returns after half of the
longest time to live.
"""

import asyncio
from dataclasses import replace

from apportion.groups.admin.found import Found, read
from apportion.runtime.clock import SystemClock
from apportion.stores.administration import Administration
from apportion.stores.api import CoordinationStore

_LOOKS = 50


async def looked_at(store: CoordinationStore, looked_after: Administration, name: str) -> Found:
    """Read a whole group, and find out whether one of its members renews its lease. Raises the errors of `read`."""
    found = await read(store, name)
    members = {there.lease: each for each, there in found.view.members.items()}
    counters = [each for each in await looked_after.renewals() if each.lease in members]
    if not counters:
        return found
    before = {each.lease: each.renewals for each in counters}
    seconds, clock = max(each.ttl_seconds for each in counters) / 2, SystemClock()
    started = clock.elapsed()
    while clock.elapsed() < started + seconds:
        await asyncio.sleep(seconds / _LOOKS)
        now = {each.lease: each.renewals for each in await looked_after.renewals()}
        # A lease that was renewed or has ended: either shows that a process watches the store.
        if any(now.get(lease) != renewals for lease, renewals in before.items()):
            return found
    return replace(found, unseen=tuple(sorted(members[each] for each in before)), looked_seconds=seconds)
