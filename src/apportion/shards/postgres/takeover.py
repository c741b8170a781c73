"""Takeover in PostgreSQL: a column that may be NULL, triggers that empty it, then an index and constraints.

    begin   the column, and triggers: a changed key empties the slot of its row, and the slots of its children
    index   CREATE UNIQUE INDEX CONCURRENTLY; one that a killed call left invalid is built again
    lock    writers wait until the last rows have their slots
    end     CHECK and foreign key NOT VALID, and the triggers of the fence in place of those of the backfill
    seal    VALIDATE, NOT NULL, and the replica identity, while programs write again

Promises: no statement waits longer than 5 s for a lock. Then `StoreUnavailable` is raised, and the same call resumes.
Source: https://www.postgresql.org/docs/current/sql-altertable.html#SQL-ALTERTABLE-NOTES
"""

from collections.abc import Iterator

from sqlalchemy import Connection, Engine, Table

from apportion.errors import InvalidInput
from apportion.shards.takeover.rows import Tables, has_slot
from apportion.shards.takeover.sharded_table import ParentColumn, ShardedTable

_WAIT = "SET LOCAL lock_timeout = '5s'"
_FUNCTIONS = (
    "CREATE SCHEMA IF NOT EXISTS apportion",
    """CREATE OR REPLACE FUNCTION apportion.empty_slot() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN NEW.slot := NULL; RETURN NEW; END $$""",
    """CREATE OR REPLACE FUNCTION apportion.empty_children() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('UPDATE %%s c SET slot = NULL WHERE c.%%I = ($1).%%I', TG_ARGV[0], TG_ARGV[1], TG_ARGV[2]) USING OLD;
  IF TG_OP = 'UPDATE' THEN
    EXECUTE format('UPDATE %%s c SET slot = NULL WHERE c.%%I = ($1).%%I', TG_ARGV[0], TG_ARGV[1], TG_ARGV[2]) USING NEW;
  END IF;
  RETURN NULL;
END $$""",
)


class PostgresTakeover:
    """The statements of PostgreSQL around a backfill."""

    def begin(self, connection: Connection, tables: Tables) -> None:
        """Add the columns, and the triggers that keep them right; a part that is there already stays."""
        for statement in (_WAIT, *_FUNCTIONS):
            connection.exec_driver_sql(statement)
        for table in tables.each:
            if not has_slot(connection, table):
                connection.exec_driver_sql(f"ALTER TABLE {_name(connection, table.mapped)} ADD COLUMN slot smallint")
        for place, name, body in _following(connection, tables):
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name} ON {place}")
            connection.exec_driver_sql(body)

    def index(self, engine: Engine, table: ShardedTable) -> None:
        """Build the unique index over (slot, primary key) while writers go on. Writers of a partitioned table wait.

        `InvalidInput` for another index of this name.
        """
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            index, place = f"{table.name}_by_slot", _name(connection, table.mapped)
            quote = connection.dialect.identifier_preparer.quote
            is_valid, is_right, is_parted = connection.exec_driver_sql(_INDEX, (index, as_value(place))).one()
            if is_right is False:
                expected = f"a unique one over {', '.join(('slot', *table.primary_key))}"
                hint = "Drop or rename it. Then run the same call again."
                raise InvalidInput(f"index {index} of table {table.name}", "another one", expected, hint)
            way = "" if is_parted else "CONCURRENTLY "
            if is_valid is False:
                named = quote(index) if table.mapped.schema is None else f"{quote(table.mapped.schema)}.{quote(index)}"
                connection.exec_driver_sql(f"DROP INDEX {way}{named}")
            if not is_valid:
                columns = ", ".join(map(quote, ("slot", *table.primary_key)))
                connection.exec_driver_sql(f"CREATE UNIQUE INDEX {way}{quote(index)} ON {place} ({columns})")

    def lock(self, connection: Connection, tables: Tables) -> None:
        """Let writers wait to the end of the transaction, and readers go on."""
        connection.exec_driver_sql(_WAIT)
        places = ", ".join(_name(connection, each.mapped) for each in tables.each)
        connection.exec_driver_sql(f"LOCK TABLE {places} IN SHARE ROW EXCLUSIVE MODE")

    def end(self, connection: Connection, tables: Tables) -> None:
        """Put constraints in place of the triggers of the backfill; no row lacks a slot any more."""
        for place, name, _ in _following(connection, tables):
            connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name} ON {place}")
        for table in tables.each:
            place = _name(connection, table.mapped)
            checked = f"ALTER TABLE {place} ADD CONSTRAINT apportion_slot CHECK (slot IS NOT NULL) NOT VALID"
            connection.exec_driver_sql(checked)
            if table.parent is not None:
                connection.exec_driver_sql(_foreign_key(connection, tables, table, table.parent))

    def seal(self, engine: Engine, tables: Tables) -> None:
        """Validate the constraints, and make the column NOT NULL and the index the replica identity."""
        for table in tables.each:
            with engine.begin() as connection:
                place = _name(connection, table.mapped)
                for constraint in connection.exec_driver_sql(_INVALID, (as_value(place),)).scalars().all():
                    connection.exec_driver_sql(f"ALTER TABLE {place} VALIDATE CONSTRAINT {constraint}")
            with engine.begin() as connection:
                connection.exec_driver_sql(_WAIT)
                connection.exec_driver_sql(f"ALTER TABLE {place} ALTER COLUMN slot SET NOT NULL")
                connection.exec_driver_sql(f"ALTER TABLE {place} DROP CONSTRAINT IF EXISTS apportion_slot")
                index = connection.dialect.identifier_preparer.quote(f"{table.name}_by_slot")
                connection.exec_driver_sql(f"ALTER TABLE {place} REPLICA IDENTITY USING INDEX {index}")


# Whether the index is valid, and whether it is one that replication can take: each NULL without an index. And whether
# the table is partitioned: its indexes cannot be made concurrently.
_INDEX = """SELECT i.indisvalid, i.indisunique AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL,
    c.relkind = 'p' FROM pg_class c LEFT JOIN (pg_index i JOIN pg_class made ON made.oid = i.indexrelid)
    ON i.indrelid = c.oid AND made.relname = %s WHERE c.oid = %s::regclass"""
_INVALID = (
    "SELECT conname FROM pg_constraint "
    "WHERE conrelid = %s::regclass AND NOT convalidated AND conname LIKE 'apportion%%'"
)


def _following(connection: Connection, tables: Tables) -> Iterator[tuple[str, str, str]]:
    """Yield the table, the name and the statement of each trigger of a backfill."""
    quote = connection.dialect.identifier_preparer.quote
    for table in tables.each:
        place = _name(connection, table.mapped)
        named = (table.parent.column,) if table.parent else table.key
        changed = " OR ".join(f"OLD.{quote(each)} IS DISTINCT FROM NEW.{quote(each)}" for each in named)
        name = quote(f"apportion_{table.name}_rekey")
        each_row = f"FOR EACH ROW WHEN ({changed}) EXECUTE FUNCTION apportion.empty_slot()"
        yield place, name, f"CREATE TRIGGER {name} BEFORE UPDATE ON {place} {each_row}"
        if table.parent is not None:
            owner = _name(connection, tables.parent_of(table).mapped)
            words = ", ".join(_text(each) for each in (place, table.parent.column, table.parent.target))
            call = f"EXECUTE FUNCTION apportion.empty_children({words})"
            target = quote(table.parent.target)
            renamed = f"(NEW.slot IS NULL AND OLD.slot IS NOT NULL) OR OLD.{target} IS DISTINCT FROM NEW.{target}"
            name = quote(f"apportion_{table.name}_orphan")
            yield owner, name, f"CREATE TRIGGER {name} AFTER UPDATE ON {owner} FOR EACH ROW WHEN ({renamed}) {call}"
            name = quote(f"apportion_{table.name}_delete")
            yield owner, name, f"CREATE TRIGGER {name} AFTER DELETE ON {owner} FOR EACH ROW {call}"


def _foreign_key(connection: Connection, tables: Tables, table: ShardedTable, parent: ParentColumn) -> str:
    quote = connection.dialect.identifier_preparer.quote
    owner, place = _name(connection, tables.parent_of(table).mapped), _name(connection, table.mapped)
    key = f"FOREIGN KEY (slot, {quote(parent.column)}) REFERENCES {owner} (slot, {quote(parent.target)})"
    return f"ALTER TABLE {place} ADD CONSTRAINT apportion_parent {key} NOT VALID"


def as_value(name: str) -> str:
    """Return a quoted name for use as a bound value: percent signs are doubled only in the text of a statement."""
    return name.replace("%%", "%")


def _name(connection: Connection, table: Table) -> str:
    return connection.dialect.identifier_preparer.format_table(table)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
