"""Load record: the sampled keys of one process in its last window of time, in one of 16 places of the control store.

A process writes the place that has its name, else a free one, else the oldest one. So the store keeps 16 windows of a
set, however many processes there are, and nothing has to be deleted.

Promises: a place has at most 32 000 bytes of keys; the rarest ones are left out. A window that cannot be written within
a second is dropped, and no session waits for it. A place that nobody can read is written over.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from apportion.errors import ApportionError, InvalidInput
from apportion.errors.brief import brief
from apportion.model.codec.parsing import integer, items, pairs, refuse, text
from apportion.shards.pins.key_sample import LoadWindow
from apportion.shards.records import Fields, SetKeys, decoded, encoded, number
from apportion.shards.router import FollowedSet
from apportion.shards.slots import ShardKey
from apportion.stores import api

logger: logging.Logger = logging.getLogger("apportion.shards")
PLACES = 16
MOST_BYTES = 32_000
_WITHIN_SECONDS = 1.0
_TRIES = 3


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRecord:
    """A window of a process. `at` is the time of its end, in seconds, by the wall clock of the process."""

    at: float
    window: LoadWindow

    def encode(self) -> bytes:
        """Return the record as bytes."""
        window = self.window
        keys, size = dict[str, int](), 0
        for key, count in sorted(window.keys.items(), key=lambda item: (-item[1], item[0])):
            size += len(key.encode()) + 16
            if size > MOST_BYTES:
                break
            keys[key] = count
        left = sum(window.keys.values()) - sum(keys.values())
        if left:
            keys[""] = keys.get("", 0) + left
        facts = {"writer": window.writer, "seconds": window.seconds, "sessions": window.sessions, "keys": keys}
        return encoded({"at": self.at, **facts})

    @classmethod
    def decode(cls, data: bytes) -> "LoadRecord":
        """Return the record that bytes hold."""
        fields = Fields(decoded(data, "load"), "at", "writer", "seconds", "sessions", "keys")
        window = LoadWindow(
            writer=fields.read("writer", text),
            seconds=fields.read("seconds", _above_zero),
            sessions=fields.read("sessions", integer),
            keys=fields.read("keys", _counts),
        )
        return cls(at=fields.read("at", number), window=window)


async def kept(followed: FollowedSet, window: LoadWindow) -> None:
    """Write a window of this process into the control store, or drop it."""
    try:
        async with asyncio.timeout(_WITHIN_SECONDS):
            await _kept(followed.store, followed.keys, LoadRecord(at=time.time(), window=window))
    except (ApportionError, TimeoutError) as error:
        logger.info("keys of sessions of set %s are not kept: %s", followed.keys.name, error or "no answer in time")


async def _kept(store: api.CoordinationStore, keys: SetKeys, record: LoadRecord) -> None:
    for _ in range(_TRIES):
        compare = _place((await store.scan(keys.load)).items, keys, record.window.writer)
        put = api.Put(key=compare.key, value=record.encode())
        if not isinstance(await store.commit(when=[compare], puts=[put]), api.Refused):
            return  # Another process took the place otherwise.


def _place(known: Sequence[api.Item], keys: SetKeys, writer: str) -> api.Compare:
    """Return the place to write, as a compare that holds while nobody else writes there."""
    found = {item.key: (item, read_load(item.value)) for item in known}
    for item, record in found.values():
        if record is not None and record.window.writer == writer:
            return api.Unchanged(key=item.key, revision=item.revision)
    free = next((key for key in (f"{keys.load}{place:02}" for place in range(PLACES)) if key not in found), None)
    if free is not None:
        return api.Absent(key=free)
    oldest, _ = min(found.values(), key=lambda pair: (0.0 if pair[1] is None else pair[1].at, pair[0].key))
    return api.Unchanged(key=oldest.key, revision=oldest.revision)


def read_load(data: bytes) -> LoadRecord | None:
    """Return the record that bytes hold, None if nobody can read it."""
    try:
        return LoadRecord.decode(data)
    except InvalidInput:
        return None


def key_in(form: object) -> ShardKey:
    """Return the key that parsed JSON stands for. `BadSnapshot` for any other value."""
    match form:
        case bool():
            refuse(form, "a key")
        case str() | int():
            return form
        case list():
            return cast(ShardKey, tuple(map(key_in, items(form))))
    try:
        return bytes.fromhex(text(pairs(form).get("hex")))
    except ValueError:
        refuse(form, "a key")


def _above_zero(value: object) -> float:
    seconds = number(value)
    return seconds if seconds > 0 else refuse(value, "a number above 0")


def _counts(value: object) -> Mapping[str, int]:
    found = {key: integer(count) for key, count in pairs(value).items()}
    return found if found and min(found.values()) > 0 else refuse(value, "counts above 0")
