"""Kept tables: the tables before and after the last changes of a published table, so that a change can be undone.

    kept/<name>/head                        the kept tables: number, the number before, time, epoch, chunks
    kept/<name>/<number>.<nonce>/<part>     the chunks of one kept table: written once, never changed

These keys do not have the prefix of the published table, so its followers do not read or watch them. The current kept
table is the one with the published epoch. So one publish completes a change, and also an undo.

Promises: both tables of a change are kept before the new one is published. If a writer dies at any moment, each kept
table stays whole. No two kept tables are equal. The table before the current one is never removed.
Refuses: to keep the tables that programs publish directly.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self
from uuid import uuid4

from apportion.errors import BadSnapshot, Conflict, InvalidInput, StoreUnavailable
from apportion.model.codec.parsing import Json, epoch, integer, items, members
from apportion.model.epoch import Epoch
from apportion.model.table import Table
from apportion.stores import api
from apportion.tables.chunk_commits import absent, batches, key_bytes, room_of
from apportion.tables.deltas import Routing, of_snapshot, snapshot
from apportion.tables.layout import TableKeys, VersionLink, is_of_later_release, link_of, payload_of
from apportion.tables.publisher import Published, Publisher

MOST = 10
"""The most kept tables besides the current one."""

MOST_BYTES = 2**24
"""The most bytes of those tables together. The one before the current one is kept at any size."""

KEPT = "kept/"
_FORMAT_VERSION = 1
_AGAIN = "Nothing was published. Check the table, and repeat the command."


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTable:
    """One kept table: its chunks, the number of the table before it (0 for none), and its epoch.

    `since` is the time at which it was kept, in seconds since 1970.
    """

    link: VersionLink
    before: int
    since: int
    epoch: Epoch

    @property
    def number(self) -> int:
        """The number of the table; later tables have higher numbers."""
        return self.link.version


class KeptTables:
    """The kept tables of one name, as one scan showed them, the oldest first."""

    def __init__(self, store: api.CoordinationStore, name: str, scan: api.Scan) -> None:
        self._store, self._keys = store, TableKeys(name, KEPT)
        self._chunks = {item.key: item.value for item in scan.items}
        self._revisions = {item.key: item.revision for item in scan.items}
        self.tables: tuple[KeptTable, ...] = decode_kept(self._chunks.get(self._keys.head))

    @classmethod
    async def read(cls, store: api.CoordinationStore, name: str) -> Self:
        """Read the kept tables of a name."""
        return cls(store, name, await store.scan(TableKeys(name, KEPT).prefix))

    def at(self, number: int) -> KeptTable | None:
        """Return the kept table with a number, None if there is none."""
        return next((each for each in self.tables if each.number == number), None)

    def equal_to(self, value: Table) -> KeptTable | None:
        """Return the kept table that equals a table, None if there is none."""
        return next((each for each in self.tables if each.epoch == value.epoch), None)

    def number_before(self, current: Table) -> int:
        """Return the number of the kept table before the current one, 0 for none.

        If the current table is not kept, return the number of the newest kept table.
        """
        there = self.equal_to(current)
        newest = self.tables[-1].number if self.tables else 0
        return newest if there is None else there.before

    def value_of(self, kept: KeptTable) -> Table:
        """Return a kept table as a value; `BadSnapshot` when it is damaged."""
        value = of_snapshot(payload_of(kept.link, self._keys, self._chunks), is_table=True)
        if not isinstance(value, Table) or value.epoch != kept.epoch:
            raise BadSnapshot(f"kept table {kept.number}", str(value.epoch), f"epoch {kept.epoch}", _AGAIN)
        return value

    async def keep(self, *values: Table, now: int) -> None:
        """Keep tables that follow one another. The last one is the current table, or becomes it by the next publish.

        If the first table is not kept yet, it follows the newest kept table. `Conflict` when another writer was first.
        """
        kept, puts = list(self.tables), list[api.Put]()
        before = kept[-1].number if kept else 0
        for place, value in enumerate(values):
            there = next((each for each in kept if each.epoch == value.epoch), None)
            if there is None or (place and there.before != before):
                link, chunks = self._chunks_of(value, 1 + max((each.number for each in kept), default=0))
                added = KeptTable(link=link, before=before, since=now, epoch=value.epoch)
                kept, puts = [*(each for each in kept if each != there), added], [*puts, *chunks]
                there = added
            before = there.number
        if puts:
            await self._write(lasting(kept, current=before), puts)

    def _chunks_of(self, value: Table, number: int) -> tuple[VersionLink, list[api.Put]]:
        limits, payload = self._store.capabilities(), snapshot(value)
        size = max(1, min(limits.max_value_bytes, limits.max_commit_bytes // 2))
        chunks = [payload[start : start + size] for start in range(0, len(payload), size)]
        link = VersionLink(version=number, nonce=uuid4().hex[:12], parts=len(chunks), size_bytes=len(payload))
        named = zip(self._keys.parts(link), chunks, strict=True)
        return link, [api.Put(key=key, value=chunk) for key, chunk in named]

    async def _write(self, kept: tuple[KeptTable, ...], puts: list[api.Put]) -> None:
        """Write the chunks first and the head last, and delete the chunks that the new head does not need."""
        revision, head = self._revisions.get(self._keys.head), self._keys.head
        held = api.Unchanged(key=head, revision=revision) if revision else api.Absent(key=head)
        pointer = api.Put(key=head, value=encode_kept(kept))
        room = room_of(self._store.capabilities(), [held], pointer)
        for batch in batches(puts, room):
            await self._commit([held, *absent(batch)], batch)
        needed = {head, *(key for each in kept for key in self._keys.parts(each.link))}
        unneeded = sorted(self._revisions.keys() - needed)
        gone = unneeded[: room.takes(2 * key_bytes(key) for key in unneeded)]
        await self._commit(
            [held, *(api.Unchanged(key=key, revision=self._revisions[key]) for key in gone)], [pointer], gone
        )

    async def _commit(self, when: list[api.Compare], puts: list[api.Put], deletes: Sequence[str] = ()) -> None:
        outcome = await self._store.commit(when=when, puts=puts, deletes=deletes)
        if isinstance(outcome, api.Unknown):
            raise StoreUnavailable("the store", outcome.reason, _AGAIN)
        if isinstance(outcome, api.Refused):
            raise Conflict(f"table {self._keys.name} is being changed by another command.", _AGAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """A change of a published table: the values before and after, and the version."""

    before: Table
    after: Table
    published: Published


async def changed(
    store: api.CoordinationStore, name: str, change: Callable[[Table], Table], *, now: int
) -> TableChange:
    """Publish the table that `change` makes from the newest one, and keep both.

    `StaleEpoch` or `Conflict` when another writer was first, `BadSnapshot` when no table can be read.
    Errors of `change` are raised before anything is written.
    """
    publisher = Publisher(store, name)
    before = _table(name, await publisher.newest())
    after = change(before)
    if after.epoch != before.epoch:
        await (await KeptTables.read(store, name)).keep(before, after, now=now)
    return TableChange(before=before, after=after, published=await publisher.publish(after))


async def undone(store: api.CoordinationStore, name: str, *, now: int) -> TableChange:
    """Undo a change: publish the table before the current one as the next version. Errors are those of `changed`.

    `InvalidInput` when no table is kept before the current one.
    """
    publisher = Publisher(store, name)
    before, kept = _table(name, await publisher.newest()), await KeptTables.read(store, name)
    found = kept.at(kept.number_before(before))
    if found is None:
        hint = (
            "Nothing was changed. Each apply keeps the table before it, up to ten. List them with: apportion table log"
        )
        raise InvalidInput("table", name, "one with a kept table before it", hint)
    after = kept.value_of(found)
    await kept.keep(before, now=now)
    return TableChange(before=before, after=after, published=await publisher.publish(after))


async def read_table(store: api.CoordinationStore, name: str, number: int | None = None) -> Table:
    """Return the newest published table of a name, or the kept table of a number."""
    if number is None:
        return _table(name, await Publisher(store, name).newest())
    kept = await KeptTables.read(store, name)
    found = kept.at(number)
    if found is None:
        known = ", ".join(str(each.number) for each in kept.tables) or "none is kept"
        raise InvalidInput("number of a kept table", number, f"one of: {known}", "apportion table log lists them.")
    return kept.value_of(found)


async def read_history(store: api.CoordinationStore, name: str) -> tuple[Table, KeptTables]:
    """Return the newest published table of a name, and the kept tables."""
    return await read_table(store, name), await KeptTables.read(store, name)


def lasting(kept: Sequence[KeptTable], *, current: int) -> tuple[KeptTable, ...]:
    """Return the kept tables that stay, the oldest first.

    They are the current one, the one before it, and the newest of the others within `MOST` and `MOST_BYTES`.
    """
    now = next(each for each in kept if each.number == current)
    others = sorted(
        (each for each in kept if each != now), key=lambda each: (each.number == now.before, each.number), reverse=True
    )
    totals = accumulate(each.link.size_bytes for each in others)
    ranked = enumerate(zip(others, totals, strict=True))
    stay = [each for place, (each, total) in ranked if place == 0 or (place < MOST and total <= MOST_BYTES)]
    return tuple(sorted([now, *stay], key=lambda each: each.number))


def encode_kept(tables: Iterable[KeptTable]) -> bytes:
    """Return the head of kept tables as bytes, some 120 bytes per table."""
    listed = [
        [each.number, each.link.nonce, each.link.parts, each.link.size_bytes, each.before, each.since,
         [each.epoch.number, each.epoch.digest]]
        for each in tables
    ]  # fmt: skip
    return json.dumps({"format_version": _FORMAT_VERSION, "kept": listed}, separators=(",", ":")).encode()


def decode_kept(data: bytes | None) -> tuple[KeptTable, ...]:
    """Return the kept tables of a head, none for damaged bytes. `BadSnapshot` for the head of a later release."""
    if data is None:
        return ()
    if is_of_later_release(data):
        raise BadSnapshot(
            "head of kept tables", data, f"one of format_version {_FORMAT_VERSION}", "Upgrade this client."
        )
    try:
        _, listed = members(json.loads(data), "format_version", "kept")
        tables = [_kept(items(each, 7)) for each in items(listed)]
    except (ValueError, RecursionError, InvalidInput):
        return ()
    return tuple(sorted(tables, key=lambda each: each.number))


def _kept(form: list[Json]) -> KeptTable:
    before, since = integer(form[4]), integer(form[5])
    return KeptTable(link=link_of(form[:4]), before=before, since=since, epoch=epoch(form[6]))


def _table(name: str, value: Routing) -> Table:
    if not isinstance(value, Table):
        hint = "Only the owners of an assignment are published. The program that made it must publish the next one."
        raise InvalidInput(f"published value {name}", "an assignment", "a table", hint)
    return value
