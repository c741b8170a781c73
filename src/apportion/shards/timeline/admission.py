"""Admission: lets a new connection to a shard take part only on the noted timeline of its server.

A connection that finds another timeline reads the slot rows, and asks the control store. Otherwise the admission costs
one round trip per connection.

Promises: after a refusal, the control store is asked again after one second at the earliest.
"""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from time import monotonic
from typing import TypeAlias

from apportion.errors import StoreWentBack
from apportion.shards.meta import ShardMeta
from apportion.shards.slot_rows import SlotRow
from apportion.shards.timeline.timeline import Timeline

REST_SECONDS = 1.0
"""The time for which a refusal holds without another question to the control store."""

ReadRows: TypeAlias = Callable[[], Mapping[int, SlotRow]]


@dataclass(slots=True, kw_only=True)
class Admission:
    """The admission of connections to one shard, in one process.

    - `meta`: the row that must name the shard in its database.
    - `has_left`: tells whether the shard is no longer in the set.
    - `noted`: the timeline that this process knows from the record of the shard.
    - `ask`: asks the control store about another timeline. It notes the timeline, or raises `StoreWentBack`.
    """

    meta: ShardMeta
    has_left: Callable[[], bool]
    noted: Callable[[], Timeline | None]
    ask: Callable[[Timeline, Mapping[int, SlotRow]], None]
    _refused: tuple[float, Timeline, StoreWentBack] | None = field(default=None, init=False)

    def check(self, found: Timeline, rows: ReadRows) -> None:
        """Raise `StoreWentBack` unless writes may go on in the timeline that a connection found."""
        if found.is_part_of(self.noted()):
            return
        if self._refused is not None:
            until, timeline, error = self._refused
            if timeline == found and monotonic() < until:
                raise copy(error)
        try:
            self.ask(found, rows())
        except StoreWentBack as error:
            self._refused = monotonic() + REST_SECONDS, found, copy(error)
            raise
