"""A process that uses a store; the suite watches and kills it: `python -m apportion.sim.conformance.member WORDS`.

It reads the store's URL from its standard input, and reports its work, one number per line.

    increment N   raise the number under `counter` N times
    hold SECONDS  keep the key `member` under a lease of that time to live, and print the number of renewals
    pairs PREFIX  write two keys under a prefix in one commit, again and again, and print each acknowledged number
"""

import asyncio
import sys

from apportion.sim.conformance.steps import increment, make
from apportion.stores import Absent, Committed, CoordinationStore, Put, Unchanged, connect


async def hold(store: CoordinationStore, ttl_seconds: float) -> None:
    """Keep a key under a lease."""
    lease = await store.grant(ttl_seconds=ttl_seconds)
    await make(store, "member", lease=lease.id)
    renewals = 0
    while await store.renew([lease.id]):
        renewals += 1
        _say(renewals)
        await asyncio.sleep(ttl_seconds / 10)


async def pairs(store: CoordinationStore, prefix: str) -> None:
    """Write pairs of keys, without end."""
    names = [f"{prefix}left", f"{prefix}right"]
    number = 0
    while True:
        found = {item.key: item for item in (await store.scan(prefix)).items}
        number = max([number, *(int(item.value) for item in found.values())]) + 1
        when = [
            Unchanged(key=name, revision=found[name].revision) if name in found else Absent(key=name) for name in names
        ]
        outcome = await store.commit(when=when, puts=[Put(key=name, value=b"%d" % number) for name in names])
        if isinstance(outcome, Committed):
            _say(number)


async def _use(url: str, verb: str, argument: str) -> None:
    store = await connect(url)
    if verb == "increment":
        await increment(store, "counter", int(argument))
    elif verb == "hold":
        await hold(store, float(argument))
    else:
        await pairs(store, argument)
    await store.close()


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_use(sys.stdin.readline().strip(), *sys.argv[1:]))
