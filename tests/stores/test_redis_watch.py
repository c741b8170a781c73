"""What a watch of Redis waits for and reads, between scripts, is what the scripts of commits and leases write."""

import asyncio
import re

from apportion.stores.redis import scripts
from tests.stores.test_redis_link import ENTERED, SILENT, told, until


def name_of(variable):
    """Return the name in the store that the scripts have as a variable."""
    [variables] = re.findall(r"local ([\w, ]+) = unpack\(KEYS\)", scripts.COMMIT)
    return scripts.NAMES[variables.split(", ").index(variable)].encode()


def test_a_watch_waits_for_the_next_entry_of_the_history_and_reads_the_leases():
    async def story(server, store):
        server.answers[b"EVALSHA"] = [b"ok", []]
        watch = asyncio.create_task(anext(store.watch("", after=5)))
        await until(lambda: server.named(b"XREAD") and server.named(b"HGETALL"))
        watch.cancel()
        await asyncio.wait([watch])
        assert [b"STREAMS", name_of("history"), b"5-0"] == server.named(b"XREAD")[0][-3:]
        assert [b"HGETALL", name_of("leases")] == server.named(b"HGETALL")[0]

    told(story, EVALSHA=ENTERED, XREAD=SILENT, HGETALL=[])
