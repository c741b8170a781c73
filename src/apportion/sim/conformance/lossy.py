"""Lossy: commits with replies that can be lost: by a proxy, or by the handle if there is no server to connect to."""

from collections.abc import Sequence
from typing import TypedDict

from apportion.sim.conformance.proxy import Proxy
from apportion.stores import Compare, CoordinationStore, Outcome, Put, Unknown


class _Asked(TypedDict):
    when: Sequence[Compare]
    puts: Sequence[Put]
    deletes: Sequence[str]


class LossyHandle:
    """A handle behind a line that loses replies on command; `lost` counts them."""

    def __init__(self, store: CoordinationStore, proxy: Proxy | None) -> None:
        self.store = store
        self._proxy = proxy
        self._until_loss: int | None = None
        self._lost = 0
        self._asked: list[_Asked] = []

    @property
    def lost(self) -> int:
        """How many replies were lost."""
        return self._lost if self._proxy is None else self._proxy.lost

    def lose_reply(self, nth: int | None) -> None:
        """Lose the nth reply from now on; None loses no more. Over a network, a commit may be several requests."""
        self._until_loss = nth
        if self._proxy is not None:
            self._proxy.lose_reply(nth)

    async def commit(
        self, *, when: Sequence[Compare], puts: Sequence[Put] = (), deletes: Sequence[str] = ()
    ) -> Outcome:
        """Commit; `Unknown` when the reply was lost."""
        self._asked.append({"when": when, "puts": puts, "deletes": deletes})
        outcome = await self.store.commit(when=when, puts=puts, deletes=deletes)
        if self._proxy is not None or self._until_loss is None:
            return outcome
        self._until_loss -= 1
        if self._until_loss:
            return outcome
        self._until_loss = None
        self._lost += 1
        return Unknown(reason="its reply was lost")

    async def repeat(self) -> int:
        """Send every request once more, as a network with double delivery does; return the number of requests."""
        if self._proxy is not None:
            return await self._proxy.repeat()
        for asked in self._asked:
            await self.store.commit(**asked)
        return len(self._asked)
