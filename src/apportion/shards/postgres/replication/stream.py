"""The stream of a native channel: its replication slot on the source, and its subscription on the target.

    sweep    delete old rows of the slots on the target
    slot     make the replication slot of this mover, and drop those of other movers
    make     make the subscription without workers, list it on the source, and start its workers

Promises: after a call that was cut off anywhere, the next call goes on. If the replication slot is lost before the copy
has ended, the stream begins anew.
Refuses: to go on with a subscription that fails again and again, that is disabled, or whose slot is lost. The error
has the server's words, as a trial finds them. If the target may take the rows later, the stream waits.
"""

from collections.abc import Sequence
from time import monotonic

from apportion.errors import Fenced, InvalidInput, StoreUnavailable
from apportion.model.epoch import FencingToken
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.moving_rows import swept
from apportion.shards.postgres.replication import source as at_source
from apportion.shards.postgres.replication import target as at_target
from apportion.shards.postgres.replication.names import object_name, slot_name
from apportion.shards.postgres.replication.trial import tried
from apportion.shards.postgres.server import ServerPlace, ShardServer
from apportion.shards.postgres.tables import ServerTable
from apportion.shards.postgres.transport import require_incoming
from apportion.stores.postgres.driver import Connection, psycopg

AGAIN = "Abort the move, and begin it again."
UNREAD_SECONDS = 10.0
"""The longest time without a process that reads the replication slot. Workers begin again within 5 s by default."""

_CHUNK_ROWS, _MOST_ERRORS = 500, 3


class RowStream:
    """The stream of one move group. `waits` is a second connection to the source, which reads the reason of a wait."""

    def __init__(
        self, group: MoveGroup, source: ShardServer, target: ShardServer, place: ServerPlace, waits: ShardServer
    ) -> None:
        self._group, self._source, self._target, self._waits = group, source, target, waits
        self._name, self._place = object_name(place.set_name, group.move), place
        self._errors: int | None = None
        self._is_short = False  # the last trial found a reason that may pass, as a full disk
        self._unread_since: float | None = None

    async def running(self, token: FencingToken, tables: Sequence[ServerTable]) -> at_target.Subscribed:
        """Return the running subscription. Make its absent parts first, each by a step that a kill may follow."""
        name, group = self._name, self._group

        async def _listed(connection: Connection) -> at_target.Subscribed | None:
            await require_incoming(connection, group)
            return await at_target.subscribed(connection, name)

        made = await self._target.write(group, token, _listed)
        slots = await self._source.read(lambda base: at_source.slots_made(base, name, group.move))
        if made is not None and made.slot not in {slot for slot, state, _ in slots if state != at_source.LOST}:
            await self._target.write(group, token, lambda base: at_target.unsubscribe(base, name))
            made = None
        if made is None:
            await self._swept(token, tables)
            slot, address = await self._slot(token), self._place.replication_address
            await self._target.write(group, token, lambda base: at_target.subscribe(base, name, slot, address))
            made = await self._require_made()
        if not made.is_enabled:
            number = made.id
            await self._source.write(group, token, lambda base: at_source.note_subscription(base, group.move, number))
            await self._target.write(group, token, lambda base: at_target.enable(base, name))
        return await self.require_running()

    async def _swept(self, token: FencingToken, tables: Sequence[ServerTable]) -> None:
        """Delete old rows of the slots on the target, and the marker of a subscription that was there before."""

        async def _sweep(connection: Connection) -> int:
            await require_incoming(connection, self._group)
            await at_source.forget(connection, self._group.move)
            return await swept(connection, tables[::-1], self._group.slots, _CHUNK_ROWS)

        while await self._target.write(self._group, token, _sweep, is_bare=True):
            pass

    async def _slot(self, token: FencingToken) -> str:
        """Make the replication slot of this mover, and drop those of others.

        A transaction that has written cannot make a slot. So the token is compared in another transaction, afterwards.
        If the token is older than that of another mover, the new slot is dropped, and `Fenced` is raised.
        """
        move, source = self._group.move, self._source
        slot = slot_name(self._name, token)

        async def _others_dropped(connection: Connection) -> None:
            await at_source.drop_slots(connection, self._name, move, self._group.source, kept=slot)

        made = await source.read(lambda base: at_source.slots_made(base, self._name, move))
        states = {each: state for each, state, _ in made}
        if states.get(slot) == at_source.LOST:
            await source.read(lambda base: at_source.drop_slot(base, slot))
        if states.get(slot, at_source.LOST) == at_source.LOST:
            await source.read(lambda base: self._made(base, slot))
        try:
            await source.write(self._group, token, _others_dropped)
        except Fenced:
            await source.read(lambda base: at_source.drop_slot(base, slot))
            raise
        return slot

    async def _made(self, connection: Connection, slot: str) -> None:
        try:
            await at_source.make_slot(connection, slot)
        except psycopg.Error as error:
            if not at_source.is_cut_off(error):
                raise
            why = f"a replication slot waits for open transactions: {await self._waits.read(at_source.oldest_writer)}"
            raise StoreUnavailable(f"shard {self._group.source}", why) from error

    async def _require_made(self) -> at_target.Subscribed:
        made = await self._target.read(lambda base: at_target.subscribed(base, self._name))
        if made is None:
            raise InvalidInput(f"subscription {self._name} of shard {self._group.target}", "absent", "there", AGAIN)
        return made

    async def require_running(self) -> at_target.Subscribed:
        """Return the subscription. `InvalidInput` if it cannot go on, so that an operator has to look."""
        made, name = await self._require_made(), f"subscription {self._name} of shard {self._group.target}"
        self._errors = made.errors if self._errors is None else self._errors
        if not made.is_enabled:
            raise InvalidInput(name, "disabled", "one that runs", f"Enable it, or abort. {AGAIN}")
        if made.errors - self._errors >= _MOST_ERRORS:
            await self._explained(name, made.errors - self._errors)
        slots = await self._source.read(lambda base: at_source.slots_made(base, self._name, self._group.move))
        readers = {slot: pid for slot, state, pid in slots if state != at_source.LOST}
        if made.slot not in readers:
            raise InvalidInput(f"replication slot {made.slot} of shard {self._group.source}", "lost", "there", AGAIN)
        self._require_read(is_read=readers[made.slot] is not None)
        return made

    async def _explained(self, name: str, errors: int) -> None:
        """Raise the reason of the subscription's errors. Return if the reason that an earlier call found has passed."""
        try:
            await tried(self._group, self._source, self._target)
        except StoreUnavailable:
            self._is_short = True
            raise
        if not self._is_short:
            hint = f"A trial with its rows had no error. Read the errors in the log of its server. {AGAIN}"
            raise InvalidInput(name, f"{errors} errors in a row", "none", hint)
        self._errors, self._is_short = (await self._require_made()).errors, False

    def _require_read(self, *, is_read: bool) -> None:
        """Raise `StoreUnavailable` if the target has not read the replication slot for a while.

        A server that reaches another database than the source waits without an error.
        """
        now = monotonic()
        self._unread_since = None if is_read else self._unread_since or now
        if self._unread_since is not None and now - self._unread_since > UNREAD_SECONDS:
            source = f"shard {self._group.source}"
            why = f"its server has not read the log of {source} for {UNREAD_SECONDS:g} s"
            look = f"look at the messages of that server, and at the replication URL of {source}"
            raise StoreUnavailable(f"shard {self._group.target}", f"{why}; {look}")
