"""Leader election: one of all candidates is the leader, and the leader can check that it is the leader.

The leader is the owner of the only partition of a group. So the leader has all that an owner has: a session,
a drain, and a token that a guard can refuse. The token's epoch grows with every leader.
"""

from datetime import timedelta

from apportion.errors import NotOwner
from apportion.groups.facade import AsyncGroup, AsyncOpening
from apportion.groups.opening import TTL
from apportion.model.epoch import FencingToken
from apportion.runtime.blocks import OnlyAsync, Raised
from apportion.runtime.events import Observer
from apportion.runtime.handle import Handle

_ONE = 0


class AsyncElection(Handle):
    """A candidacy, for callers on any event loop."""

    def __init__(self, group: AsyncGroup) -> None:
        self._group, self._has_resigned = group, False

    @property
    def is_leader(self) -> bool:
        """Whether this process is the leader at this moment, by its own clock. No I/O."""
        return _ONE in self._group.owned

    @property
    def token(self) -> FencingToken:
        """The leader's token, for each write; `NotOwner` when this process is not the leader. No I/O."""
        return self._group.token(_ONE)

    async def wait_until_elected(self) -> FencingToken:
        """Wait until this process is the leader; return its token. `NotOwner` once it is no longer a candidate."""
        if self._has_resigned:
            raise _resigned()
        changes = self._group.changes()
        try:
            while not self.is_leader:
                if await anext(changes, None) is None:
                    raise _resigned()
        finally:
            await changes.aclose()
        return self.token

    def resign(self) -> None:
        """Let another candidate be the leader, and stop being a candidate. From any thread."""
        self._has_resigned = True
        self._group.leave()


class Leader(OnlyAsync):
    """`apportion.leader(...)`: is a candidate within an `async with` block, and resigns at its end.

    - `url`: the URL of the store, as in `open_store`.
    - `name`: the name of the election, at most 200 bytes. No group of the store may have the same name.
    - `member_id`: the id of this candidate. Default: `APPORTION_MEMBER_ID`, else the host name and a random part.
    - `lease_ttl`: the time for which a killed process stays the leader. Default: 10 seconds.
    - `quarantine_after`: the number of leaders that may die in a row, 1 to 9. The election then waits for
      `apportion group release`. Default: None, so that the next leader waits longer each time, up to a minute.
    - `observer`: a function that is called with each event, as in `open_group`. The leader owns partition 0.

        async with apportion.leader("sqlite:///work.db", "nightly-report") as election:
            token = await election.wait_until_elected()
            while election.is_leader:
                ...  # one part of the report, written under the token

    The call raises `InvalidInput` for a wrong argument. When the block begins, it raises the errors of `open_group`.
    """

    _call = "apportion.leader(url, name)"

    def __init__(
        self,
        url: str,
        name: str,
        *,
        member_id: str | None = None,
        lease_ttl: timedelta = TTL,
        quarantine_after: int | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._opening = AsyncOpening(
            url,
            name,
            partitions=1,
            member_id=member_id,
            lease_ttl=lease_ttl,
            quarantine_after=quarantine_after,
            observer=observer,
        )

    async def __aenter__(self) -> AsyncElection:
        return AsyncElection(await self._opening.__aenter__())

    async def __aexit__(self, *raised: *Raised) -> None:
        await self._opening.__aexit__(*raised)


def _resigned() -> NotOwner:
    hint = "To be a candidate again, leave this block and open another apportion.leader(...)."
    return NotOwner(_ONE, "this process has resigned, by itself, by request or by SIGTERM", hint)


leader = Leader
