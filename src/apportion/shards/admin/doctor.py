"""Doctor of a set: compares the records and the table with the databases, and the databases with each other.

Promises: nothing is written. Each finding names the shard, and the next step where one is needed.
Refuses: to mend. A row with a wrong slot, or a slot with two owners, needs an operator.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from random import Random

from sqlalchemy import Connection
from sqlalchemy.orm import DeclarativeBase

from apportion.errors import ApportionError, BadSnapshot, SchemaDiffers
from apportion.shards.admin.channels import pair_channels
from apportion.shards.admin.facts import moves_of
from apportion.shards.admin.places import open_sites
from apportion.shards.models import check_models, tables_of
from apportion.shards.move_group import MOST_SLOTS, MoveGroup
from apportion.shards.mover.records import slot_of_pin
from apportion.shards.place import SLOT_TABLE, DatabasePlace, is_relative
from apportion.shards.records import SetKeys, ShardRecord
from apportion.shards.router import FollowedSet, set_followed, set_left, table_of
from apportion.shards.schema import Schema, schema_differences, schema_of
from apportion.shards.slot_rows import SlotRow
from apportion.shards.slots import SlotTable
from apportion.shards.takeover.takeover import tables_there, within
from apportion.shards.timeline.timeline import Timeline
from apportion.stores.administration import Finding, judged

_WITHIN_SECONDS = 5.0
SAMPLED_SLOTS = 64
"""The number of slots that are sampled in each table, unless all rows are compared."""
_MOST_NAMED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedAt:
    """The findings on a shard, with its slot rows and its tables. Both are None if they were not read."""

    findings: tuple[Finding, ...]
    rows: Mapping[int, SlotRow] | None = None
    schema: Schema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Doctor:
    """One examination of a set. `sampled` has the slots with rows to compare, None for all slots."""

    followed: FollowedSet
    table: SlotTable
    base: type[DeclarativeBase] | None
    sampled: tuple[int, ...] | None

    def shard(self, shard: str, record: ShardRecord) -> LookedAt:
        """Examine one shard. An error becomes a finding."""
        subject = f"shard {shard}"
        places = () if not is_relative(record) else (_relative(subject, record),)
        try:
            database = DatabasePlace(record.address())
            database.check_place()
            if not database.is_there():
                advice = "Restore the file, or mend the URL of the shard."
                return LookedAt(findings=(*places, _error(subject, f"no file at {database.path}", advice)))
            with database.reader() as reader:
                found = within(reader, shard, lambda connection: self._database(connection, shard, database))
        except ApportionError as error:
            return LookedAt(findings=(*places, _error(subject, error.problem, error.hint)))
        return LookedAt(findings=(*places, *found.findings), rows=found.rows, schema=found.schema)

    def _database(self, connection: Connection, shard: str, database: DatabasePlace) -> LookedAt:
        database.fence.check(connection, self.followed.meta(shard))
        absent = database.absent_tables(connection)
        lacks = [_error(f"shard {shard}", f"no table {name}", step) for name, step in absent.items()]
        if SLOT_TABLE in absent:
            return LookedAt(findings=tuple(lacks))
        rows = database.slot_rows(connection)
        findings = [Finding(subject=f"shard {shard}", found="the database is this shard"), self._numbers(shard, rows)]
        findings += lacks
        findings += _marks(shard, database.marks_left(connection))
        findings += _timeline(shard, self.followed.shards[shard].timeline, database.timeline(connection))
        findings += [_stray(shard, slot) for slot in database.stray_slots(connection)]
        schema = None
        if self.base is not None:
            schema = schema_of(connection, self.base)
            shed = {each for each in database.fence.others(connection) if each in rows and rows[each].state == "owner"}
            findings += _triggers(connection, shard, database, self.base)
            findings += self._slots(connection, shard, self.base, shed)
        return LookedAt(findings=tuple(findings), rows=rows, schema=schema)

    def _numbers(self, shard: str, rows: Mapping[int, SlotRow]) -> Finding:
        """Compare the numbers of the slots with the version of the table.

        A newer number shows a restored control store.
        """
        known = [row.number for row in rows.values() if row.number is not None and row.state != "incoming"]
        newest = max(known, default=None)
        is_ahead = newest is not None and newest > self.table.version
        found = "no slot is ahead of the table"
        if is_ahead:
            found = f"the shard knows version {newest}, the table is {self.table.version}"
        advice = (
            "The control store is an old copy, and the shards refuse old routes. Run apportion store restored URL, and "
            "then apportion shards recover URL SET"
        )
        return judged(f"numbers of {shard}", found, advice if is_ahead else "", verdict="error")

    def _slots(
        self, connection: Connection, shard: str, base: type[DeclarativeBase], shed: Set[int]
    ) -> Iterator[Finding]:
        """Compare rows with their slots. A slot that is shed may still have old rows of an isolated key."""
        among = self.sampled
        if shed:
            among = tuple(each for each in among or sorted(self.table.owners) if each not in shed)
            advice = "Run apportion shards apply URL SET, which deletes them. Until then, reports are refused."
            said = f"old rows of an isolated key in slot {_named(_words(shed))}"
            yield Finding(subject=f"rows of {shard}", found=said, verdict="warning", advice=advice)
        tables = replace(tables_there(connection, base, self.table.hash_slots), table=self.table)
        wrong, counted = [], 0
        for each in tables.each:
            for place in tables.wrong(connection, each, among=among):
                counted += 1
                wrong += [f"{each.name} {place}"] if counted <= _MOST_NAMED else []
        looked = "all slots" if self.sampled is None else f"{len(self.sampled)} sampled slots"
        found = f"{counted} with a wrong slot: {_named(wrong)}" if counted else f"no row is wrong in {looked}"
        advice = "Write each of these rows again in a session of its key, and delete the old row."
        yield judged(f"rows of {shard}", found, advice if counted else "", verdict="error")


def _stray(shard: str, slot: str) -> Finding:
    """Report a replication slot that a mover made after its move had ended."""
    advice = f"The server keeps its log of transactions for it. Drop it: SELECT pg_drop_replication_slot('{slot}')"
    said = f"{slot} belongs to no move"
    return Finding(subject=f"replication slots of {shard}", found=said, verdict="warning", advice=advice)


def _marks(shard: str, count: int) -> Iterator[Finding]:
    """Report marks of a mover.

    A mover writes and deletes its mark in one transaction. While a mark stands, the triggers refuse nothing.
    """
    if count:
        advice = "Run apportion shards add URL SET ID=URL, and then apportion shards doctor URL SET --whole"
        yield _error(f"triggers of {shard}", f"switched off by {count} rows in apportion_mover", advice)


def _timeline(shard: str, noted: Timeline | None, found: Timeline | None) -> Iterator[Finding]:
    """Compare the timeline of a server with the noted one. A session notes a later one by itself if nothing is lost."""
    if found is not None:
        is_same = noted is None or found.is_part_of(noted)
        said = f"{found}" if is_same else f"{found}, and {noted} is noted"
        advice = f"Look at it: apportion shards accept-failover URL SET {shard} --check"
        yield judged(f"timeline of {shard}", said, "" if is_same else advice)


def _triggers(
    connection: Connection, shard: str, database: DatabasePlace, base: type[DeclarativeBase]
) -> Iterator[Finding]:
    absent = database.absent_triggers(connection, tables_of(base))
    found = f"absent: {_named(absent)}" if absent else "all are there"
    advice = "Programs can write rows of other slots. Make the triggers again: apportion shards add URL SET ID=URL"
    yield judged(f"triggers of {shard}", found, advice if absent else "", verdict="error")


async def doctor(
    url: str, name: str, *, base: type[DeclarativeBase] | None, is_whole: bool, seed: int
) -> tuple[Finding, ...]:
    """Return the findings about a set. Errors are those of `open_shards`."""
    if base is not None:
        check_models(base)
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS, needs_all=False)
    try:
        table = table_of(followed.follower.routes)
        slots = sorted(table.owners)
        count = min(SAMPLED_SLOTS, len(slots))
        chosen = Random(seed).sample(slots, count)  # noqa: S311 - a sample, and no secret
        sampled = None if is_whole else tuple(sorted(chosen))
        look = Doctor(followed=followed, table=table, base=base, sampled=sampled)
        shards = sorted(followed.shards.items())
        found = {shard: await asyncio.to_thread(look.shard, shard, record) for shard, record in shards}
        moving, damages = await _moving(followed)
        pairs = await _pairs(followed, table, found)
    finally:
        await set_left(followed)
    damages = [*followed.damaged.values(), *damages]
    findings = [_error("control store", each.problem, each.hint) for each in damages]
    findings += [finding for each in found.values() for finding in each.findings]
    open_pins = {slot for move, listed in moving.items() if slot_of_pin(move) is not None for slot in listed}
    coming = {slot for listed in moving.values() for slot in listed}
    return (*findings, *_of_owners(table, found, open_pins, coming), *_of_schemas(found), *pairs)


async def _pairs(followed: FollowedSet, table: SlotTable, found: Mapping[str, LookedAt]) -> Sequence[Finding]:
    """Check a move from one shard to each other shard, as an apply would. No move begins."""
    source = next((owner for _, owner in sorted(table.owners.items()) if owner is not None), None)
    if source is None or any(each.rows is None for each in found.values()):
        return ()
    slots = tuple(slot for slot, owner in sorted(table.owners.items()) if owner == source)[:MOST_SLOTS]
    targets, findings = sorted(found.keys() - {source}), []
    groups = [MoveGroup(move="doctor", source=source, target=target, slots=slots) for target in targets]
    async with open_sites(followed.keys.name, followed.shards) as sites:
        for group in groups:
            subject, said, advice = f"move from {source} to {group.target}", "nothing would stop it", ""
            try:
                await (await sites.channel(group)).check(0)
            except ApportionError as error:
                if isinstance(error, SchemaDiffers) and _differ(found[source], found[group.target]):
                    continue  # The comparison of the models' tables reports it.
                said, advice = error.problem, error.hint
            findings.append(judged(subject, said, advice, verdict="error"))
    for each in await pair_channels(followed.keys.name, followed.shards, groups):
        words = "native" if each.kind == "native" else "log of keys alone"
        findings.append(Finding(subject=f"channel from {source} to {each.target}", found=f"{words}: {each.reason}"))
    return findings


def _differ(here: LookedAt, there: LookedAt) -> bool:
    """Whether the tables of the models differ. False without models."""
    return bool(here.schema and there.schema and [*schema_differences(("", here.schema), ("", there.schema))])


async def _moving(followed: FollowedSet) -> tuple[Mapping[str, tuple[int, ...]], Sequence[BadSnapshot]]:
    """Return the list of moving slots, and the errors of unreadable records."""
    moves = await moves_of(followed, needs_list=False)
    return moves.moving, [*moves.damaged.values()]


def _of_owners(
    table: SlotTable, found: Mapping[str, LookedAt], open_pins: Set[int], coming: Set[int]
) -> Iterator[Finding]:
    """Compare the slot rows with the table. Each slot must have one owner, the one in the table."""
    if open_pins:
        advice = "A pin is under way, or was cut off. Run the same pin, or shards apply without a plan."
        yield Finding(subject="pins", found=f"open: {_named(_words(open_pins))}", verdict="warning", advice=advice)
    if any(each.rows is None for each in found.values()):
        yield Finding(
            subject="slots", found="not compared: a shard was not read", verdict="warning", advice="See above."
        )
        return
    yield from _unknown(table, found, coming)
    twice, astray, moving = [], [], []
    for slot, named in sorted(table.owners.items()):
        states = {shard: each.rows[slot].state for shard, each in found.items() if each.rows and slot in each.rows}
        owners = [shard for shard, state in states.items() if state == "owner"]
        if len(owners) > 1:
            twice.append(str(slot))
        elif "fenced" in states.values() or states.get(named or "") == "incoming":
            moving.append(str(slot))
        elif owners != [named] and slot not in open_pins:
            astray.append(str(slot))
    yield from _owned(twice, astray, moving, len(table.owners))


def _unknown(table: SlotTable, found: Mapping[str, LookedAt], coming: Set[int]) -> Iterator[Finding]:
    """Report slot rows with a slot that the table lacks. The slot of a pin that was made meanwhile looks the same.

    The row of a slot that left the shard stays there after the slot was merged with another one.
    """
    for shard, each in found.items():
        here = {slot for slot, row in (each.rows or {}).items() if row.state != "moved"}
        if unknown := here - table.owners.keys() - coming:
            advice = (
                "No key of the table has these slots. If the control store was restored from a copy, they belong to "
                "keys that were pinned later: restore a newer copy. Otherwise, if the next doctor finds them too, "
                "delete their rows in apportion_slot."
            )
            said = f"unknown to the table: {_named(_words(unknown))}"
            yield Finding(subject=f"slots of {shard}", found=said, verdict="warning", advice=advice)


def _owned(twice: list[str], astray: list[str], moving: list[str], count: int) -> Iterator[Finding]:
    if twice:
        advice = "Stop the writers of these slots, and compare the rows of both shards."
        yield _error("slots", f"two owners of {_named(twice)}", advice)
    if astray:
        advice = (
            "The table and the shards differ, so writers are refused. Restore the older of the two from a newer copy."
        )
        yield _error("slots", f"not owned where the table says: {_named(astray)}", advice)
    if moving:
        advice = "A move is under way, or its mover died. Run the same apply again."
        yield Finding(subject="slots", found=f"a switch of {_named(moving)}", verdict="warning", advice=advice)
    if not (twice or astray or moving):
        yield Finding(subject="slots", found=f"{count} slots, each with one owner, as in the table")


def _of_schemas(found: Mapping[str, LookedAt]) -> Iterator[Finding]:
    read = [(shard, each.schema) for shard, each in found.items() if each.schema is not None]
    for second in read[1:]:
        differing = [*schema_differences(read[0], second)]
        advice = "Run the migration on the shard that lacks it. Until then, no slot moves between the two shards."
        said = _named(differing) if differing else "equal"
        yield judged(f"tables of {read[0][0]} and {second[0]}", said, advice if differing else "", verdict="error")


def _relative(subject: str, record: ShardRecord) -> Finding:
    advice = "From another folder, this path names another file. Make the set anew with an absolute path."
    return Finding(subject=subject, found=f"a relative path: {record.url}", verdict="warning", advice=advice)


def _error(subject: str, found: str, advice: str) -> Finding:
    return Finding(subject=subject, found=found, verdict="error", advice=advice)


def _words(slots: Set[int]) -> list[str]:
    return [str(slot) for slot in sorted(slots)]


def _named(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f", … {more} more" if more > 0 else "")
