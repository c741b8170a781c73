"""Departure: how a member leaves its group. It repeats its request for a drain until the store has it, then goes.

Promises: a request that is lost with its connection is sent once more at once, then every quarter of a second. The
member frees every partition that it cannot hand over in time, so that its departure does not count as a death. A static
member does not free its partitions, because its next session takes them.
Refuses: to wait for longer than `drain_timeout` plus `lease_ttl`. While the store is away, a member goes once its own
deadline is over and its work has ended: its lease then ends by itself.
"""

from collections.abc import Callable
from contextlib import suppress

from apportion.errors import StoreUnavailable
from apportion.groups.membership import Membership
from apportion.groups.opening import Options
from apportion.stores.api import Unknown

AGAIN_SECONDS = 0.25


class Departure:
    """The departure of one member, once it `is_wanted`; times are elapsed seconds. Any thread may set `is_wanted`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.is_wanted = False
        self._ends_at: float | None = None
        self._asks_at: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether we have begun to leave."""
        return self._ends_at is not None

    def wakes_at(self) -> float | None:
        """Return the time of the next look if no news comes before; None if no look is needed."""
        return self._ends_at if self._asks_at is None else self._asks_at

    async def ask(self, membership: Membership, now: float) -> None:
        """Ask the controller for a target without us, unless the request is already there."""
        if self._ends_at is None:
            self._ends_at = now + self._options.drain_seconds + self._options.ttl_seconds
        if self._options.is_static or membership.is_asked:
            self._asks_at = None
        elif self._asks_at is None or now >= self._asks_at:
            self._asks_at = now + AGAIN_SECONDS
            with suppress(StoreUnavailable):
                if not isinstance(await membership.ask(), Unknown):
                    return
            await membership.ask()

    def is_late(self, now: float) -> bool:
        """Whether `drain_timeout` plus `lease_ttl` have passed since we began to leave."""
        return self._ends_at is not None and now >= self._ends_at

    async def go(self, membership: Membership, *, width: int, is_quiet: Callable[[int], bool]) -> None:
        """Delete our member record. Before that, free every partition that is still ours.

        A partition with work under way is freed in the same commit that ends the session.
        """
        left = () if self._options.is_static else membership.owned
        await membership.free([each for each in left if is_quiet(each)], width=width)
        await membership.leave(frees=[each for each in left if not is_quiet(each)][:width])
