"""A table that one process publishes and many route by, from memory. Pass a URL to try it on another store."""

import asyncio
import sys

from apportion import Ring, stores
from apportion.errors import StaleRoute
from apportion.tables.follower import following
from apportion.tables.publisher import Publisher


async def main(url: str) -> None:
    store = await stores.connect(url)
    ring = Ring(["db-01", "db-02", "db-03"])
    publisher = Publisher(store, "tenants")
    await publisher.publish(ring.table())
    async with following(store, "tenants") as table:
        routes = table.routes
        print("version", routes.version.number, "routes tenant-42 to", routes.route("tenant-42"))
        smaller = ring.on(ring.topology.without(routes.route("tenant-42")))
        published = await publisher.publish(smaller.table())
        print("published", "a snapshot" if published.is_snapshot else "a delta smaller than it")
        stale = StaleRoute("tenant-42", routes.route("tenant-42"), routes.version)  # what the node that lost it raises
        print(stale.problem.partition(" (")[0])
        routes = await table.refresh(routes.version)
        print("version", routes.version.number, "routes tenant-42 to", routes.route("tenant-42"))
        await store.close()
        print("the store is away, tenant-42 goes to", table.routes.route("tenant-42"))


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory://"))

# Prints:
# version 1 routes tenant-42 to db-01
# published a delta smaller than it
# 'tenant-42' is not handled by 'db-01' any more
# version 2 routes tenant-42 to db-03
# the store is away, tenant-42 goes to db-03
