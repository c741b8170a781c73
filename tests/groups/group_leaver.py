"""A member whose interpreter ends while it hands over: handlers are at work when the main thread has had enough.

`python -m tests.groups.group_leaver`; the first line of its standard input is that of a `group_worker`, with `how`:
one of `HOW`. It says `ready`, leaves at the next line, and ends in its own way once a handler of a loss has begun.
"""

import asyncio
import sys
import threading
import time

import apportion
from apportion import sync
from tests.groups import group_worker

MOMENT_SECONDS, LONG_SECONDS = 0.2, 3600.0
PATIENCE_SECONDS = 60
STATUS = 3
KEPT = []


def serve(group, seconds):
    """Serve in a thread; return once told to leave, in the middle of the first handlers."""
    told, begun = threading.Event(), threading.Event()

    def on_lost(partition, token):
        if told.is_set():
            begun.set()
            time.sleep(seconds)

    threading.Thread(target=lambda: group.serve(on_lost=on_lost), daemon=True).start()
    group.wait_until_settled()
    print("ready", flush=True)
    sys.stdin.readline()
    told.set()
    group.leave()
    assert begun.wait(PATIENCE_SECONDS)


def exits(*given, **options):
    """Exit within the block, whose end waits for the handlers."""
    with sync.open_group(*given, **options) as group:
        serve(group, MOMENT_SECONDS)
        sys.exit(STATUS)


def hangs(*given, **options):
    """Exit within the block, whose end waits no longer for handlers that hang than it may."""
    with sync.open_group(*given, **options) as group:
        serve(group, LONG_SECONDS)
        sys.exit(STATUS)


def falls_off(*given, **options):
    """Come to the end of the program in a block that nobody ends."""
    KEPT.append(sync.open_group(*given, **options))
    serve(KEPT[-1].__enter__(), LONG_SECONDS)


def awaits(*given, **options):
    """Exit within the block, on an event loop."""
    asyncio.run(awaiting(*given, **options))


async def awaiting(*given, **options):
    """See `awaits`."""
    told, begun = asyncio.Event(), asyncio.Event()

    async def on_lost(partition, token):
        if told.is_set():
            begun.set()
            await asyncio.sleep(MOMENT_SECONDS)

    async with apportion.open_group(*given, **options) as group:
        serving = asyncio.create_task(group.serve(on_lost=on_lost))
        await group.wait_until_settled()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        told.set()
        group.leave()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await begun.wait()
        assert not serving.done()
        sys.exit(STATUS)


HOW = {each.__name__: each for each in (exits, hangs, falls_off, awaits)}


def main(said):
    """End as the first line says."""
    url, _, how, _ = (said.pop(name, None) for name in ("url", "log", "how", "work"))
    HOW[how](url, "work", **said)


if __name__ == "__main__":
    main(group_worker.told())
