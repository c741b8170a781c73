"""Choice: the next write of a writer. A writer has every eighth place, so no other process writes to its places.

A place is left alone after a write that was not acknowledged. The writer does not know its value.
"""

import random
from contextlib import closing
from dataclasses import dataclass

from apportion.console.demo.shards.ledger import LedgerLine
from apportion.console.demo.shards.world import FIRST, WRITERS, DemoWorld

_NEW, _DELETED = 0.15, 0.15
_FIRST_NEW = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceWrite:
    """A write of one place. `value` is the number of the write, None for a deletion."""

    id: int
    country: str
    slot: int
    value: int | None
    is_new: bool

    @property
    def line(self) -> LedgerLine:
        """The write as a ledger has it."""
        return {"id": self.id, "slot": self.slot, "value": self.value}


class WriteChoice:
    """Chooses the writes of one writer, by a seed. Deleted places come back now and then.

    `rest_seconds` is the time to wait after each write.
    """

    def __init__(self, world: DemoWorld, number: int) -> None:
        self._random = random.Random(number)  # noqa: S311 - no secret
        with closing(world.databases.connect(FIRST)) as connection:
            rows = connection.execute("SELECT id, country, slot FROM place WHERE id % ? = ?", (WRITERS, number))
            self._alive = {place: (country, slot) for place, country, slot in rows}
        self._ids = sorted(self._alive)
        self._deleted: list[tuple[int, str, int]] = []
        self._newest = _FIRST_NEW + number
        self._written = 0
        self._open: PlaceWrite | None = None
        self.rest_seconds: float = world.databases.rest_seconds

    def next(self) -> PlaceWrite:
        """Return the next write."""
        if self._open is not None:
            self._forget(self._open.id)
        self._open = self._chosen()
        return self._open

    def _chosen(self) -> PlaceWrite:
        self._written += 1
        what = self._random.random()
        place = self._random.choice(self._ids)
        country, slot = self._alive[place]
        if what < _NEW:
            if self._deleted and self._random.random() < 0.5:
                place, country, slot = self._deleted.pop(self._random.randrange(len(self._deleted)))
            else:
                self._newest += WRITERS
                place = self._newest
            return PlaceWrite(id=place, country=country, slot=slot, value=self._written, is_new=True)
        value = None if what < _NEW + _DELETED else self._written
        return PlaceWrite(id=place, country=country, slot=slot, value=value, is_new=False)

    def done(self, write: PlaceWrite) -> None:
        """Take an acknowledged write into account."""
        self._open = None
        if write.value is None:
            self._forget(write.id)
            self._deleted.append((write.id, write.country, write.slot))
        elif write.is_new:
            self._alive[write.id] = (write.country, write.slot)
            self._ids.append(write.id)

    def leave(self, country: str) -> None:
        """Stop choosing places of this country."""
        self._alive = {place: each for place, each in self._alive.items() if each[0] != country}
        self._ids = sorted(self._alive)
        self._deleted = [each for each in self._deleted if each[1] != country]

    def _forget(self, place: int) -> None:
        if self._alive.pop(place, None) is not None:
            self._ids.remove(place)
