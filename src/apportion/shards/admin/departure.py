"""Departure of a shard: the checks before it is drained, and its removal from the set.

The removal first drops all that the set added to the database, in one transaction that looks at slots and rows again.
Then one commit deletes the record of the shard. The same call again finishes a call that was cut off between both.

Promises: a database with an owned slot or with a row of the set keeps its triggers. The tables of the application stay.
Refuses: the last shard that may own slots, and a silent database, unless the caller says that it is gone for good.
"""

# ruff: noqa: S608 - names are quoted

import asyncio
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import NoReturn

from sqlalchemy import Connection
from sqlalchemy.exc import ProgrammingError

from apportion.errors import Conflict, InvalidInput, StoreDenied, StoreUnavailable, UnknownOption
from apportion.shards.admin.carrier import Carrier, check_records
from apportion.shards.admin.facts import moves_of
from apportion.shards.mover.book import KeptMove
from apportion.shards.place import DatabasePlace
from apportion.shards.postgres import departure as postgres
from apportion.shards.records import SetKeys
from apportion.shards.router import FollowedSet, set_followed, set_left, table_of
from apportion.shards.sqlite import departure as sqlite
from apportion.shards.takeover.takeover import within
from apportion.stores import api
from apportion.tables.layout import TableKeys, decode_head

_WITHIN_SECONDS = 5.0
_PARTS: dict[str, ModuleType] = {"sqlite": sqlite, "postgresql": postgres}
_CHANGED = "Look at the set: apportion shards status URL SET. Then run the same call again."


async def check_drain(url: str, name: str, shard: str) -> None:
    """Raise unless a shard may give away all its slots: it is in the set, and another shard may own them."""
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        _check_others(followed, shard)
    finally:
        await set_left(followed)


async def check_drained(url: str, name: str, shard: str) -> None:
    """Raise `Conflict` if a shard has slots after its drain, for example because another call pinned a key there."""
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        owned = _owned(followed, shard)
    finally:
        await set_left(followed)
    if owned:
        hint = f"Another command gave them to it. Run the same call again: apportion shards drain URL SET {shard}"
        raise Conflict(f"shard {shard} has {owned} slots after its drain.", hint)


def _owned(followed: FollowedSet, shard: str) -> int:
    return sum(owner == shard for owner in table_of(followed.follower.routes).owners.values())


async def removed(carrier: Carrier, shard: str, *, is_gone: bool) -> None:
    """Take a shard out of its set. `is_gone` says that a database without a reply will never answer again."""
    followed = carrier.followed
    _check_others(followed, shard)
    table = table_of(followed.follower.routes)
    if owned := _owned(followed, shard):
        _refuse(shard, f"with {owned} slots", "without slots", f"Drain it: apportion shards drain URL SET {shard}")
    moves = await moves_of(followed)
    check_records(moves)
    due = [kept for _, kept in sorted(moves.kept.items()) if shard in _shards_of(kept)]
    leaving = _Leaving(followed, shard)
    away = await asyncio.to_thread(leaving.silence)
    if away is None:
        _check_over(shard, due)
        carrier.mover.check()
        await asyncio.to_thread(leaving.leave)
    elif not is_gone:
        away.hint = "Wait for it. If it is gone for good: apportion shards remove URL SET ID --force"
        raise away
    else:
        _check_over(shard, [kept for kept in due if not _is_past(kept, shard)])
    book = carrier.mover.book
    for kept in due:  # Their old rows are gone with the database.
        carrier.mover.check()
        if not await book.release(kept):
            raise _changed(shard)
    await asyncio.to_thread(leaving.unlock)
    await _forget(carrier, shard, table.version.number)


def _check_others(followed: FollowedSet, shard: str) -> None:
    """Refuse a shard that the set does not have, and the last shard with a weight."""
    if shard not in followed.shards:
        raise UnknownOption("shard", shard, followed.shards)
    if not any(record.weight for each, record in followed.shards.items() if each != shard):
        hint = "Give another shard weight first: apportion shards plan URL SET --weight ID=1 -o plan.json, then apply."
        raise InvalidInput("shard", shard, "a shard in a set where another shard has a weight above 0", hint)


def _shards_of(kept: KeptMove) -> tuple[str, str]:
    group = kept.entry.group
    return group.source, group.target


def _is_past(kept: KeptMove, shard: str) -> bool:
    """Whether a move away from a shard only waits for the end of its old rows."""
    entry = kept.entry
    return entry.record.state in ("complete", "cleaned") and entry.group.source == shard


def _check_over(shard: str, due: list[KeptMove]) -> None:
    for kept in due:
        entry = kept.entry
        state, move = entry.record.state, entry.group.move
        way = "apportion shards clean URL SET"
        if state not in ("complete", "cleaned"):
            way = f"apportion shards apply URL SET, or abort. Then: {way}"
        _refuse(shard, f"with move {move}, which is {state}", "without moves", f"End it: {way}")


def _refuse(shard: str, found: str, expected: str, hint: str) -> NoReturn:
    raise InvalidInput("shard to remove", f"{shard}, {found}", f"one {expected}", hint)


def _changed(shard: str) -> Conflict:
    return Conflict(f"the records of the set changed while shard {shard} was removed.", _CHANGED)


def _parts_of(place: DatabasePlace) -> ModuleType:
    return _PARTS[place.url.get_backend_name()]


@dataclass(frozen=True, slots=True)
class _Leaving:
    """The database of a shard that leaves its set."""

    followed: FollowedSet
    shard: str

    @property
    def _place(self) -> DatabasePlace:
        return DatabasePlace(self.followed.shards[self.shard].address())

    def silence(self) -> StoreUnavailable | None:
        """Return the error of a silent database, None if the database answers.

        If it answers with an error, raise this error.
        """
        place, shard = self._place, self.shard
        if not place.is_there():
            return StoreUnavailable(f"database of shard {shard}", f"there is no file {place.path}")
        try:
            with place.reader() as reader:
                within(reader, shard, place.meta)
        except StoreUnavailable as error:
            if _parts_of(place).answers(getattr(error.__cause__, "orig", None)):
                raise
            return error
        return None

    def leave(self) -> None:
        """Drop all that the set added, in one transaction. A database that is no shard any more stays as it is."""
        place = self._place
        try:
            with place.engine() as engine:
                within(engine, self.shard, partial(self._left, place))
        except ProgrammingError as error:
            if getattr(error.orig, "sqlstate", None) != "42501":
                raise
            hint = "Run the command as the role that owns the tables of the set."
            raise StoreDenied(f"shard {self.shard}", str(error.orig).strip(), hint) from error

    def unlock(self) -> None:
        """Delete the lock of the tables, which nobody needs any more."""
        self._place.remove_lock(self.shard)

    def _left(self, place: DatabasePlace, connection: Connection) -> None:
        if place.meta(connection) is None:
            return
        place.fence.check(connection, self.followed.meta(self.shard))
        parts = _parts_of(place)
        for statement in parts.LOCK:
            connection.exec_driver_sql(statement)
        for slot, state in connection.exec_driver_sql(parts.OWNED).all():
            hint = "Look at the set: apportion shards doctor URL SET"
            _refuse(self.shard, f"with slot {slot} in its database as {state}", "without slots", hint)
        tables = [*parts.sharded(connection)]
        parts.drop_triggers(connection)
        for table in tables:
            if connection.exec_driver_sql(f"SELECT 1 FROM {table} LIMIT 1").first() is not None:
                hint = (
                    "Delete old rows: apportion shards clean URL SET. Look at others: apportion shards verify URL SET"
                )
                _refuse(self.shard, f"with rows in table {table}", "without rows of the set", hint)
        followed = self.followed
        parts.drop_rest(connection, followed.keys.prefix)


async def _forget(carrier: Carrier, shard: str, version: int) -> None:
    """Delete the record of a shard, in a commit that compares the table and the list of moves."""
    followed, book = carrier.followed, carrier.mover.book
    head = TableKeys(followed.keys.name).head
    key, store = followed.keys.shard(shard), followed.store
    partitions = followed.keys.partitions(shard)
    found = {item.key: item for each in (key, head, partitions) for item in (await store.scan(each)).items}
    moves = await book.read()
    is_due = any(shard in _shards_of(kept) for kept in moves.kept.values())
    if is_due or head not in found or decode_head(found[head].value).version != version:
        raise _changed(shard)
    if key in found:
        gone = [each for each in (key, partitions) if each in found]
        when = [api.Unchanged(key=each, revision=found[each].revision) for each in (*gone, head)]
        outcome = await store.commit(when=[*when, book.list_compare(moves)], deletes=gone)
        if isinstance(outcome, api.Unknown) and any(item.key == key for item in (await store.scan(key)).items):
            raise StoreUnavailable("the control store", outcome.reason)
        if isinstance(outcome, api.Refused):
            raise _changed(shard)
