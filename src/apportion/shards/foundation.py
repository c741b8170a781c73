"""Founding: makes a set of shards out of databases. At most one of them has the rows of an application.

Each shard is prepared first: tables, triggers, and a row for each slot that it owns. Then the table of the slots is
published. So nobody routes to a shard that is not ready. The shard that has rows owns all slots. The other shards get
its rows of reference tables. Databases without a revision of Alembic get that of the first one that has it.

Promises: the same call again finishes a founding that was cut off, and changes nothing in a finished one. Each check
that needs no write comes before the first write. Until the table is published, a call with other URLs for the same
shards corrects the records.
Refuses: another number of slots, other shards, a database that is a shard of another set, and rows in two databases.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import Connection, Engine, select
from sqlalchemy.orm import DeclarativeBase

from apportion.balance.slots import slots as even_slots
from apportion.errors import InvalidInput, StoreUnavailable
from apportion.model.assignment import Assignment
from apportion.model.topology import Topology
from apportion.shards.meta import ShardMeta
from apportion.shards.migration.revision import share_revision
from apportion.shards.models import check_models, tables_of
from apportion.shards.mover.failover import record_of
from apportion.shards.numbers import check_given, give_stride
from apportion.shards.periods.records import note_tables
from apportion.shards.place import DatabasePlace, check_apart, one_database, placed
from apportion.shards.postgres.partitions.first import note_first
from apportion.shards.records import FORMAT, SetKeys, SetRecord, ShardRecord, check_shard_id, read_record
from apportion.shards.references import copy_references
from apportion.shards.schema import Schema, check_equal, schema_of
from apportion.shards.slots import DEFAULT_SLOTS, FIRST_RANGE, check_hash_slots
from apportion.shards.takeover.obstacles import check_slots, obstacles_of
from apportion.shards.takeover.rows import Tables
from apportion.shards.takeover.survey import SetSurvey, survey_of
from apportion.shards.takeover.takeover import Takeover, TakeoverProgress, reached, tables_there, within
from apportion.stores import api
from apportion.stores.catalog import connect
from apportion.tables.layout import TableKeys
from apportion.tables.publisher import Publisher

Told = Callable[[TakeoverProgress], None]


def untold(progress: TakeoverProgress) -> None:
    """Ignore the progress."""


async def found(
    url: str,
    name: str,
    shards: Mapping[str, ShardRecord],
    base: type[DeclarativeBase],
    slots: int = DEFAULT_SLOTS,
    *,
    told: Told = untold,
    is_strided: bool = False,
    is_ranged: bool = False,
) -> None:
    """Make a set, and return when its table is published. Paths of files are stored as absolute paths."""
    keys = SetKeys(name)
    founded = Founded.checked(name, shards, base, slots)
    check_apart(url, founded.shards)
    if len(shards) > 1 or is_strided:
        check_given(shards, base, is_strided=is_strided)
    topology = Topology([each.node(shard) for shard, each in founded.shards.items()])
    store = await connect(url)
    try:
        known = (await store.scan(keys.set)).items
        holder = (
            read_record(known[0].key, known[0].value, SetRecord.decode).holder
            if known
            else await asyncio.to_thread(founded.holder)
        )
        record = replace(founded.record, holder=holder)
        await _write_records(store, keys, record, founded.shards)
        await note_tables(store, keys, base.metadata)
        table = _table(topology, record, is_ranged=is_ranged)
        is_published = bool((await store.scan(TableKeys(name).head)).items)
        for shard in founded.shards:  # The slots of a published set may have moved since its first table.
            await founded.prepare(shard, () if is_published else _owned(table, shard), told)
            await note_timeline(store, keys, shard, founded.shards[shard])
            await note_first(store, keys, shard, founded.shards[shard])
        if record.holder:
            source = (record.holder, founded.shards[record.holder])
            for target in founded.shards.items():
                if target != source:
                    await asyncio.to_thread(copy_references, source, target, base)
        await asyncio.to_thread(share_revision, founded.shards)
        if is_strided:
            await asyncio.to_thread(give_stride, founded.shards, base)
        if not (await store.scan(TableKeys(name).head)).items:
            await Publisher(store, name).publish(table)
    finally:
        await store.close()


async def surveyed(shards: Mapping[str, ShardRecord], base: type[DeclarativeBase], slots: int) -> SetSurvey:
    """Return the survey of the database that has rows. If none has, return a survey of the models alone."""
    founded = Founded.checked("", shards, base, slots)
    return await asyncio.to_thread(founded.survey)


@dataclass(frozen=True, slots=True, kw_only=True)
class Founded:
    """A set and its shards while they are made. `like` is a shard, by id and tables, that the new ones must equal."""

    name: str
    record: SetRecord
    shards: Mapping[str, ShardRecord]
    base: type[DeclarativeBase]
    like: tuple[str, Schema] | None = None

    @classmethod
    def checked(
        cls, name: str, shards: Mapping[str, ShardRecord], base: type[DeclarativeBase], slots: int = DEFAULT_SLOTS
    ) -> "Founded":
        """Check each argument, and return the set that will be made."""
        check_models(base)
        if not shards:
            raise InvalidInput("shards", dict(shards), "at least one shard", "Pass --shard ID=URL.")
        for shard in shards:
            check_shard_id(shard)
        record = SetRecord(hash_slots=check_hash_slots(slots))
        return cls(name=name, record=record, shards=placed(shards), base=base)

    def meta(self, shard: str) -> ShardMeta:
        """Return the row that names the shard in its database."""
        slots, hasher = self.record.hash_slots, self.record.hasher
        return ShardMeta(set_id=self.name, shard=shard, slots=slots, hasher=hasher, format=FORMAT)

    def holder(self) -> str:
        """Return the shard that has rows, "" if none has.

        Refuse one database for two shards, also under two names of its host. Refuse a database of another set, a
        generated column `slot`, and rows in two databases.
        """
        self.check_apart()
        there = [shard for shard in self.shards if self.has_rows(shard)]
        if len(there) > 1:
            hint = "Begin with the database that has the rows. The other shards begin empty, and slots move to them."
            raise InvalidInput("databases with rows", ", ".join(there), "one at most", hint)
        return there[0] if there else ""

    def check_apart(self) -> None:
        """Refuse one database for two shards, also under two names of its host."""
        taken: dict[object, str] = {}
        for shard, record in self.shards.items():
            database = DatabasePlace(record.address())
            with database.reader() as reader:
                known = within(reader, shard, database.identity) if database.path is None else None
            if known is not None and taken.setdefault(known, shard) != shard:
                raise one_database(shard, database.url, f"shard {taken[known]}")

    def survey(self) -> SetSurvey:
        """Return the survey of the database that has rows."""
        count, slots = max(2, len(self.shards)), self.record.hash_slots
        holder = self.holder()
        if not holder:
            return SetSurvey(shard="", shards=count, tables=(), obstacles=obstacles_of(self.base))

        with DatabasePlace(self.shards[holder].address()).reader() as reader:
            return within(reader, holder, partial(survey_of, shard=holder, base=self.base, slots=slots, shards=count))

    def has_rows(self, shard: str) -> bool:
        """Whether the database of a shard has rows in the tables of the models."""
        database = DatabasePlace(self.shards[shard].address())
        if not database.is_there():
            return False
        with database.reader() as reader:
            return within(reader, shard, partial(self._shows_rows, shard, database))

    def made_as(self, shard: str) -> ShardMeta | None:
        """Return the row by which the database of a shard names itself. None if it is not the database of a shard."""
        database = DatabasePlace(self.shards[shard].address())
        if not database.is_there():
            return None
        with database.reader() as reader:
            return within(reader, shard, database.meta)

    def _shows_rows(self, shard: str, database: DatabasePlace, connection: Connection) -> bool:
        if database.meta(connection) is not None:
            if not self.name:
                return False  # a survey without a set leaves out databases that are shards already
            database.fence.check(connection, self.meta(shard))
        if self.name:
            check_slots(connection, self.base)
            database.check_times(connection, tables_of(self.base))
        there = tables_there(connection, self.base, self.record.hash_slots).each
        has_rows = any(connection.execute(select(1).select_from(each.bare).limit(1)).first() for each in there)
        if has_rows and database.statements is None:
            hint = "Copy the rows through pinned sessions of a new set."
            raise InvalidInput(f"database of shard {shard}", "one with rows", "an empty one of this kind", hint)
        return has_rows

    async def prepare(self, shard: str, slots: Sequence[int], told: Told) -> None:
        """Make one database a shard, with its tables, its triggers and the rows of its slots."""
        database = DatabasePlace(self.shards[shard].address())
        metadata = self.base.metadata

        def _end(connection: Connection) -> None:
            metadata.create_all(connection)
            database.fence.found(connection, self.meta(shard), tables_of(self.base), slots)
            if self.like is not None:
                check_equal(self.like, (shard, schema_of(connection, self.base)))

        with database.engine() as engine, database.reader() as reader:
            tables = await asyncio.to_thread(within, reader, shard, partial(self._old_tables, database))
            statements = database.statements
            if tables is None or statements is None:
                await asyncio.to_thread(within, engine, shard, _end)
                await asyncio.to_thread(self._sealed, shard, database, reader)
                return
            takeover = Takeover(
                shard=shard,
                engine=engine,
                reader=reader,
                base=self.base,
                tables=tables,
                statements=statements,
                told=told,
            )
            await takeover.run(_end)

    def _sealed(self, shard: str, database: DatabasePlace, engine: Engine) -> None:
        """Do the last step of a takeover that was cut off just before it, and make lost indexes of the slots again."""
        there = within(engine, shard, partial(tables_there, base=self.base, slots=self.record.hash_slots))
        if (statements := database.statements) is not None:
            for table in there.each:
                reached(shard, partial(statements.index, engine, table))
            reached(shard, partial(statements.seal, engine, there))

    def _old_tables(self, database: DatabasePlace, connection: Connection) -> Tables | None:
        """Return the tables of a database that is not a shard yet. Return None for a shard, or if it has no tables."""
        if database.meta(connection) is not None:
            return None
        tables = tables_there(connection, self.base, self.record.hash_slots)
        return tables if tables.each else None


async def note_timeline(store: api.CoordinationStore, keys: SetKeys, shard: str, record: ShardRecord) -> None:
    """Note the timeline of a shard's server, unless one is noted already."""
    database = DatabasePlace(record.address())
    with database.reader() as reader:
        found = await asyncio.to_thread(within, reader, shard, database.timeline)
    kept = await record_of(store, keys, shard)
    if found is not None and found.number and kept.record.timeline is None:
        await kept.note(store, found)


def _table(topology: Topology, record: SetRecord, *, is_ranged: bool) -> Assignment:
    """Return the first table. It shares the slots evenly, or gives all of them to the shard that has rows."""
    even = even_slots(topology, count=record.hash_slots)
    names = (FIRST_RANGE,) if is_ranged else even.names
    rows = ((topology.index(record.holder),),) * record.hash_slots if record.holder else even.rows
    return Assignment(topology=topology, rows=rows, names=names)


def _owned(table: Assignment, shard: str) -> list[int]:
    place = table.topology.index(shard)
    return [slot for slot, row in enumerate(table.rows) if row == (place,)]


async def _write_records(
    store: api.CoordinationStore, keys: SetKeys, record: SetRecord, shards: Mapping[str, ShardRecord]
) -> None:
    """Write the records of a set, or compare them with the records that the store has already."""
    wanted = {keys.set: record.encode(), **{keys.shard(shard): each.encode() for shard, each in shards.items()}}
    outcome = await store.commit(
        when=[api.Absent(key=key) for key in wanted],
        puts=[api.Put(key=key, value=value) for key, value in wanted.items()],
    )
    items = (await store.scan(keys.prefix)).items
    found = {item.key: _plain(keys, item) for item in items if item.key == keys.set or keys.shard_of(item.key)}
    if found == wanted:
        return
    if not found:
        raise StoreUnavailable("the control store", f"it answered {outcome}")
    if await _corrected(store, keys, record, wanted):
        return
    there = ", ".join(sorted(shard for key in found if (shard := keys.shard_of(key))))
    if (await store.scan(TableKeys(keys.name).head)).items:
        hint = "Take another name, or go on with: apportion shards status URL SET"
        raise InvalidInput(f"set {keys.name}", f"there already, with shards {there}", "a set that is not there", hint)
    said = f"begun by an earlier call, with shards {there} and {SetRecord.decode(found[keys.set]).hash_slots} slots"
    hint = "Name the same shards and slots to finish it, or take another name and other databases."
    raise InvalidInput(f"set {keys.name}", said, "a set that is not there", hint)


def _plain(keys: SetKeys, item: api.Item) -> bytes:
    """Return a record as a call of `init` writes it, without the timeline that came later."""
    if not keys.shard_of(item.key):
        return item.value
    return replace(read_record(item.key, item.value, ShardRecord.decode), timeline=None).encode()


async def _corrected(
    store: api.CoordinationStore, keys: SetKeys, record: SetRecord, wanted: Mapping[str, bytes]
) -> bool:
    """Write other URLs into the records of a set that was never published. Return False for a different set.

    The shards and their slots stay the same. So a database that was prepared still has its slots. The shard that has
    rows keeps its database.
    """
    items = (await store.scan(keys.prefix)).items
    found = {item.key: item for item in items if item.key == keys.set or keys.shard_of(item.key)}
    kept = [keys.set, *([keys.shard(record.holder)] if record.holder else [])]
    if found.keys() != wanted.keys() or any(_plain(keys, found[key]) != wanted[key] for key in kept):
        return False
    outcome = await store.commit(
        when=[
            api.Absent(key=TableKeys(keys.name).head),
            *(api.Unchanged(key=key, revision=item.revision) for key, item in found.items()),
        ],
        puts=[api.Put(key=key, value=value) for key, value in wanted.items()],
    )
    return isinstance(outcome, api.Committed)
