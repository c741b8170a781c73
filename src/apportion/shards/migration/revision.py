"""Revision of a database: that which Alembic wrote into the database, read and copied without Alembic."""

from collections.abc import Mapping
from functools import partial

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select

from apportion.errors import SchemaDiffers
from apportion.shards.migration.record import VERSION_TABLE
from apportion.shards.place import DatabasePlace
from apportion.shards.records import ShardRecord
from apportion.shards.takeover.takeover import within

_LONGEST = 32


def revision_of(connection: Connection, version_table: str = VERSION_TABLE) -> str:
    """Return the revision of a database, "" if it has none. Heads of several branches are joined by commas."""
    table = _table(version_table)
    if not inspect(connection).has_table(table.name, schema=table.schema):
        return ""
    return ",".join(sorted(connection.execute(select(table.c.version_num)).scalars()))


def stamp(connection: Connection, revision: str, version_table: str = VERSION_TABLE) -> None:
    """Write a revision into a database that has none. "" writes nothing."""
    if not revision or revision_of(connection, version_table):
        return
    table = _table(version_table)
    table.create(connection, checkfirst=True)
    connection.execute(table.insert(), [{"version_num": each} for each in revision.split(",")])


def share_revision(shards: Mapping[str, ShardRecord], version_table: str = VERSION_TABLE) -> None:
    """Stamp the shards without a revision with that of the first one that has it. The tables of all are equal."""
    found = {shard: _read(shard, record, version_table) for shard, record in shards.items()}
    revision = next((each for each in found.values() if each), "")
    for shard, own in found.items():
        if revision and not own:
            with DatabasePlace(shards[shard].address()).engine() as engine:
                within(engine, shard, partial(stamp, revision=revision, version_table=version_table))


def check_revisions(revisions: Mapping[str, str]) -> None:
    """Raise `SchemaDiffers` unless all shards have the same revision."""
    if len({*revisions.values()}) < 2:
        return
    first, *others = sorted(revisions)
    other = next(each for each in others if revisions[each] != revisions[first])
    found = [f"the revision is {revisions[each] or 'absent'} in {each}" for each in sorted(revisions)]
    error = SchemaDiffers(f"shard {first}", f"shard {other}", found)
    error.hint = "Bring all shards to one revision: apportion shards migrate URL SET"
    raise error


def _read(shard: str, record: ShardRecord, version_table: str) -> str:
    with DatabasePlace(record.address()).reader() as engine:
        return within(engine, shard, partial(revision_of, version_table=version_table))


def _table(name: str) -> Table:
    schema, _, bare = name.rpartition(".")
    column = Column("version_num", String(_LONGEST), primary_key=True)
    return Table(bare, MetaData(), column, schema=schema or None)
