"""A shard in PostgreSQL, as a mover sees it."""

# ruff: noqa: S608 - names are quoted, values are bound

from collections.abc import Mapping, Sequence

from apportion.errors import InvariantBroken, StoreUnavailable
from apportion.model.epoch import FencingToken
from apportion.shards.move_group import MoveGroup, RowChange
from apportion.shards.postgres import key_log
from apportion.shards.postgres.moving_rows import join, locks_of, shed, swept, take
from apportion.shards.postgres.replication import source as at_source
from apportion.shards.postgres.replication import target as at_target
from apportion.shards.postgres.replication.names import object_name
from apportion.shards.postgres.script import Statement, script
from apportion.shards.postgres.server import ServerPlace, ShardServer, rows
from apportion.shards.postgres.tables import tables_of
from apportion.shards.shard import CLEAN_ROWS, SlotSize
from apportion.shards.slot_rows import SlotRow, slot_row
from apportion.shards.timeline.timeline import Timeline
from apportion.stores.postgres.driver import Connection

_ALL_ROWS = "SELECT slot, state, life, number FROM apportion.slot"
_ROWS = f"{_ALL_ROWS} WHERE slot = ANY (%s)"
_CHANGED = """INSERT INTO apportion.slot AS kept (slot, state, life, number, move)
    SELECT slot, %(after)s, %(life)s, %(number)s, %(move)s FROM unnest(%(slots)s::smallint[]) slot
    WHERE %(makes)s OR EXISTS (SELECT FROM apportion.slot here WHERE here.slot = slot.slot)
    ON CONFLICT (slot) DO UPDATE SET state = excluded.state, move = excluded.move,
    life = CASE WHEN %(keeps)s THEN kept.life ELSE excluded.life END,
    number = CASE WHEN %(keeps)s THEN kept.number ELSE excluded.number END,
    former = CASE WHEN %(sheds)s THEN 'owner' WHEN kept.state = excluded.state THEN kept.former
    WHEN excluded.state = 'incoming' THEN kept.state END
    WHERE kept.state = ANY (%(before)s)"""

_LEFT = "SELECT count(*) FROM apportion.slot WHERE move = %s AND (state = 'incoming' OR former = 'owner')"


class PostgresShard:
    """See `Shard`."""

    def __init__(self, place: ServerPlace) -> None:
        self._server, self._set_name = ShardServer(place), place.set_name

    async def guard(self, group: MoveGroup, token: FencingToken) -> None:
        """See `Shard`. A role that may not write rows without their triggers is refused here, at the first act."""

        async def _nothing(_: Connection) -> None:
            pass

        await self._server.write(group, token, _nothing, is_bare=True)

    async def rows(self, group: MoveGroup) -> Sequence[SlotRow | None]:
        """See `Shard`."""
        [found] = await self._server.ask(Statement(_ROWS, (list(group.slots),)))
        kept = {slot: slot_row(slot, state, life, number) for slot, state, life, number in found}
        return [kept.get(slot) for slot in group.slots]

    async def change(self, group: MoveGroup, change: RowChange, token: FencingToken) -> None:
        """See `Shard`. It waits for the writers of the slots, and writers wait for it."""
        number = change.number
        values: dict[str, object] = {
            "after": change.after,
            "life": None if number is None else number.incarnation,
            "number": None if number is None else number.number,
            "move": group.move,
            "slots": list(group.slots),
            "makes": None in change.before,
            "keeps": change.keeps_number,
            "sheds": change.sheds,
            "before": [each for each in change.before if each is not None],
        }
        statements = [locks_of(group.slots), Statement(_CHANGED, values)]
        if change.after == "fenced":
            statements.append(at_source.rise_of(group.move))
        elif change.after == "moved":  # so that no delete of old rows reaches the target
            statements.append(at_source.end_of(self._published(group.move)))
        if not change.takes and change.joins is None:
            await self._server.change(group, token, *statements)
            return

        async def _placed(connection: Connection) -> None:
            if change.joins is not None:
                await script(connection, locks_of(group.slots))
                await join(connection, group, (await tables_of(connection))[::-1], change.joins)
                return
            await script(connection, *statements)
            await take(connection, group, (await tables_of(connection))[::-1])

        await self._server.write(group, token, _placed, is_bare=True)

    async def sizes(self) -> Mapping[int, SlotSize]:
        """See `Shard`."""

        async def _sizes(connection: Connection) -> dict[int, SlotSize]:
            found: dict[int, SlotSize] = {}
            for table in await tables_of(connection):
                counted = f"SELECT slot, count(*), sum(pg_column_size(kept.*)) FROM {table.name} kept GROUP BY slot"
                for slot, number, size in await rows(connection, counted.replace("%", "%%")):
                    before = found.get(slot, SlotSize(rows=0, bytes=0))
                    found[slot] = SlotSize(rows=before.rows + number, bytes=before.bytes + int(size))
            return found

        return await self._server.read(_sizes)

    async def clean(self, group: MoveGroup, token: FencingToken) -> int:
        """See `Shard`."""

        async def _clean(connection: Connection) -> int:
            if (await at_source.published(connection, self._published(group.move), group.move)).has_publication:
                raise InvariantBroken(f"rows of move {group.move} were to be deleted while they are published")
            if group.isolated is not None:
                return await shed(connection, group, (await tables_of(connection))[::-1], CLEAN_ROWS)
            moved = "SELECT slot FROM apportion.slot WHERE slot = ANY (%s) AND state = 'moved' FOR SHARE"
            slots = [slot for (slot,) in await rows(connection, moved, list(group.slots))]
            return await swept(connection, (await tables_of(connection))[::-1], slots, CLEAN_ROWS)

        return await self._server.write(group, token, _clean, is_bare=True)

    async def drop(self, group: MoveGroup, token: FencingToken) -> None:
        """See `Shard`."""

        async def _drop(connection: Connection) -> bool:
            await at_target.unsubscribe(connection, self._published(group.move))
            mine = (
                "SELECT slot FROM apportion.slot WHERE slot = ANY (%s) AND state = 'incoming' AND move = %s FOR UPDATE"
            )
            slots = [slot for (slot,) in await rows(connection, mine, list(group.slots), group.move)]
            if await swept(connection, (await tables_of(connection))[::-1], slots, CLEAN_ROWS):
                return False
            await rows(
                connection,
                """UPDATE apportion.slot SET state = former, former = NULL, move = NULL, life = NULL, number = NULL
                WHERE slot = ANY (%s) AND former IS NOT NULL""",
                slots,
            )
            gone = "DELETE FROM apportion.slot WHERE slot = ANY (%s) AND state = 'incoming'"
            await rows(connection, gone, slots)
            await at_source.forget(connection, group.move)
            return True

        while not await self._server.write(group, token, _drop, is_bare=True):
            pass

    async def left_behind(self, move: str) -> Sequence[str]:
        """See `Shard`."""

        async def _left(connection: Connection) -> list[str]:
            found = [f"trigger of {name}" for name in sorted(await key_log.captured(connection, move, least=1))]
            found += [key_log.log_name(move)] if await key_log.has_log(connection, move) else []
            name = self._published(move)
            here = await at_source.published(connection, name, move)
            found += [f"publication {name}"] if here.has_publication else []
            found += [f"replication slot {each}" for each in await at_source.slot_sizes(connection, name, move)]
            found += [f"subscription {name}"] if await at_target.has_subscription(connection, name) else []
            kept = {
                "apportion.marker": "SELECT count(*) FROM apportion.marker WHERE move = %s",
                "apportion.move": "SELECT count(*) FROM apportion.move WHERE move = %s",
                "apportion.slot": _LEFT,
            }
            mine = "SELECT slot FROM apportion.slot WHERE move = %s AND state IN ('incoming', 'moved')"
            for table in await tables_of(connection):
                kept[table.name] = f"SELECT count(*) FROM {table.name.replace('%', '%%')} WHERE slot IN ({mine})"
            for place, counted in kept.items():
                [(number,)] = await rows(connection, counted, move)
                found += [f"{place}: {number} rows"] if number else []
            return found

        return await self._server.read(_left)

    async def close(self) -> None:
        """See `Shard`."""
        await self._server.close()

    def _published(self, move: str) -> str:
        return object_name(self._set_name, move)


async def server_state(place: ServerPlace) -> tuple[Timeline, dict[int, SlotRow]]:
    """Return the timeline of a shard's server, which may be any, and all slot rows of the shard.

    `StoreUnavailable` if the server does not answer.
    """
    server = ShardServer(place)
    try:
        found = await server.read(lambda connection: rows(connection, _ALL_ROWS))
    finally:
        await server.close()
    if server.timeline is None:
        raise StoreUnavailable(f"shard {place.shard}", "its server told no timeline")
    return server.timeline, {slot: slot_row(slot, state, life, number) for slot, state, life, number in found}
