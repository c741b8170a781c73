"""Key sample: the keys of one in 64 pinned sessions of a router, in windows of time.

A session is picked by chance, so no rhythm of a program hides a key. Each picked session of a window is equally likely
to be in its sample.

Promises: a session that is not picked costs a comparison. Memory: at most 512 keys of 200 bytes.
Refuses: to name a longer key. It counts as the key "".
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from time import monotonic
from uuid import UUID

from apportion.balance.ranges.key_reservoir import KeyReservoir
from apportion.errors.brief import brief
from apportion.shards.slots import ShardKey

SESSIONS_PER_SAMPLE = 64
MOST_KEYS = 512
MOST_KEY_BYTES = 200
LEAST_SECONDS, MOST_SECONDS = 30.0, 300.0
LEAST_KEYS = 64
"""A window ends after 30 seconds with this number of keys, and after five minutes with any number."""


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWindow:
    """The pinned sessions of one process in a window of time.

    `keys` has the sampled keys as JSON, with the number of times that each one is in the sample. `writer` is a random
    name of the process.
    """

    writer: str
    seconds: float
    sessions: int
    keys: Mapping[str, int]


class KeySample:
    """The sample of the present window. `due` is the number of the next session that is picked."""

    def __init__(self, clock: Callable[[], float] = monotonic, rng: Random | None = None) -> None:
        self._clock, self._rng = clock, rng or Random()  # noqa: S311 - no secret
        self._writer = f"{self._rng.getrandbits(64):016x}"
        self.due: int = self._later(0)
        self._begin(0)

    def take(self, keys: Sequence[ShardKey], sessions: int) -> LoadWindow | None:
        """Take the keys of the session with this number. Return the window if it has ended, and begin another one."""
        self.due = self._later(sessions)
        for key in keys:
            text = key_json(key).encode()
            self._keys.add(text if len(text) <= MOST_KEY_BYTES else b"")
        seconds = self._clock() - self._since
        if seconds < LEAST_SECONDS or (self._keys.seen < LEAST_KEYS and seconds < MOST_SECONDS):
            return None
        return self.rest(sessions)

    def rest(self, sessions: int) -> LoadWindow | None:
        """End the window now, and begin another one. None if no session was picked."""
        keys = Counter(key.decode() for key in self._keys.keys if isinstance(key, bytes))
        seconds, made = max(self._clock() - self._since, 0.001), sessions - self._before
        self._begin(sessions)
        return LoadWindow(writer=self._writer, seconds=seconds, sessions=made, keys=keys) if keys else None

    def _begin(self, sessions: int) -> None:
        self._keys = KeyReservoir(MOST_KEYS, self._rng)
        self._since, self._before = self._clock(), sessions

    def _later(self, sessions: int) -> int:
        return sessions + self._rng.randrange(1, 2 * SESSIONS_PER_SAMPLE)


def key_json(key: ShardKey) -> str:
    """Return a key as JSON. Keys with equal slots by rule, such as a UUID and its text, are equal there.

    >>> key_json("FR"), key_json(("FR", 2024)), key_json(b"FR")
    ('"FR"', '["FR",2024]', '{"hex":"4652"}')
    """
    return json.dumps(_plain(key), separators=(",", ":"), ensure_ascii=False)


def _plain(key: ShardKey) -> object:
    match key:
        case tuple():
            return [*map(_plain, key)]
        case bytes():
            return {"hex": key.hex()}
        case str() | UUID():
            return f"{key}"
    return int(key)
