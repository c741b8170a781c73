"""Shards and channels that break a promise on purpose: those of SQLite and of a world, with one part changed each.

The suites must find every one of them; `test_broken.py` has the cases that do.
"""

from apportion.shards.sqlite import channel as sqlite_channel
from apportion.shards.sqlite import comparison, file, log, stage
from apportion.sim.shards import memory, wire


def forgets_first(patched):
    """Deletes a part of the log from the source before the target has committed its rows."""

    async def apply(self, token):
        while await self._target.read(self._log.read):
            await self._source.write(self._group, token, self._log.forget)
            await self._target.write(self._group, token, self._log.write)

    patched.setattr(sqlite_channel.SqliteChannel, "apply", apply)


def shows_no_token(patched):
    """Writes without the token of the mover."""

    class Careless:
        def check(self, connection, token):
            """Take any token."""

    patched.setattr(file, "_GUARD", Careless())


def compares_loosely(patched):
    """Compares values by the collation of their column."""

    def differing(table, pairs):
        return stage_differing(table, pairs).replace(" COLLATE BINARY", "")

    stage_differing = stage.differing
    patched.setattr(stage, "differing", differing)
    patched.setattr(comparison, "differing", differing)


def disturbs_no_chunk(patched):
    """Lets rows be written that were read before a part of the log was applied."""
    patched.setattr(log, "disturb", lambda connection, move: None)


def forgets_first_in_a_world(patched):
    """Does as `forgets_first`, in a world."""

    async def apply(self, token):
        kept, send = [], self._target.guarded

        async def later(*words):
            kept.append(words)

        self._target.guarded = later
        await memory_apply(self, token)
        self._target.guarded = send
        for words in kept:
            await send(*words)

    memory_apply = memory.MemoryChannel.apply
    patched.setattr(memory.MemoryChannel, "apply", apply)


def shows_no_token_in_a_world(patched):
    """Does as `shows_no_token`, in a world."""
    patched.setattr(wire.ShardPlace, "show", lambda self, move, token, number: None)
