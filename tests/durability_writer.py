"""A writer for `tests.durability`: commits keys until it is killed, and prints each that was acknowledged.

echo URL | python -m tests.durability_writer 8
"""

import asyncio
import sys

from apportion.errors import ApportionError
from apportion.stores import Absent, Committed, CoordinationStore, Put, connect


async def main(url: str, writers: int) -> None:
    """Write with so many requests in flight."""
    store = await connect(url)
    await asyncio.gather(*(_write(store, f"{number}") for number in range(writers)))


async def _write(store: CoordinationStore, name: str) -> None:
    number = 0
    while True:
        key, number = f"{name}/{number}", number + 1
        try:
            outcome = await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=b"x" * 100)])
        except ApportionError:
            await asyncio.sleep(0.05)
            continue
        if isinstance(outcome, Committed):
            print(key, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.stdin.readline().strip(), int(sys.argv[1])))
