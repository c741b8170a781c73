"""A process of the conformance suite that uses a prefix store; see `apportion.sim.conformance.member`."""

import asyncio
import sys

from apportion import stores
from apportion.sim.conformance import member
from tests.stores.rigs.prefixes import PREFIX, Under


async def connect(line):
    under, first, second = line.split()
    return Under(await stores.by_prefix({"": first, PREFIX: second}), under)


if __name__ == "__main__":
    member.connect = connect
    asyncio.run(member._use(sys.stdin.readline().strip(), *sys.argv[1:]))
