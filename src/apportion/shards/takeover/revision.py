"""Revision: a file for Alembic that adds the columns, the slots and the indexes of a takeover.

The file itself names tables and columns, so it still works after a change of the models. After it has run, `init` adds
the triggers, and the slot rows of the shard. The file is written as text, so Alembic need not be installed.

Promises: the revision follows the only head of its folder. An existing file is left as it is.
Source: https://alembic.sqlalchemy.org/en/latest/tutorial.html#create-a-migration-script
"""

import ast
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from sqlalchemy import Connection, Table
from sqlalchemy.orm import DeclarativeBase

from apportion.errors import InvalidInput
from apportion.shards.models import check_models
from apportion.shards.slots import check_hash_slots
from apportion.shards.takeover.rows import Tables
from apportion.shards.takeover.sharded_table import ParentColumn, ShardedTable, sharded_in_order

_HEAD = '''"""Add the slots of apportion to the sharded tables.

After it, `apportion shards init` adds the triggers and makes the set.
Revision ID: {revision}
Revises: {down}
"""

import sqlalchemy as sa
from alembic import op

from apportion.shards.admin import fill_slots

revision = {revision!r}
down_revision = {down!r}
branch_labels = None
depends_on = None

SLOTS = {slots}
tables = sa.MetaData()
'''
_SUFFIX = "_apportion_slots.py"


def fill_slots(
    connection: Connection,
    table: Table,
    *,
    slots: int,
    key: Sequence[str] = (),
    parent: tuple[str, Table, str] | None = None,
) -> None:
    """Set the slots of all rows of a table that have none, in the current transaction.

    - `key`: the columns of the shard key.
    - `parent`: for a child, its column, the table of its parents, and the column there. The parents must have their
      slots.
    """
    made = [_described(table, tuple(key), parent)]
    if parent is not None:
        made.insert(0, _described(parent[1], ()))
    tables = Tables(each=tuple(made), slots=check_hash_slots(slots))
    while tables.fill(connection, made[-1])[0]:
        pass
    if left := tables.without_slot(connection, made[-1]):
        hint = "Delete or mend the rows without a parent."
        raise InvalidInput(f"rows of {table.name} that cannot get a slot", left, "none", hint)


def written_revision(folder: Path, base: type[DeclarativeBase], slots: int) -> Path:
    """Write the revision into a folder of Alembic, and return its path.

    Return the file of an earlier call, if there is one.
    """
    check_models(base)
    check_hash_slots(slots)
    if not folder.is_dir():
        hint = "Pass the folder of the versions, such as migrations/versions."
        raise InvalidInput("folder of revisions", str(folder), "a folder that exists", hint)
    if there := sorted(folder.glob(f"*{_SUFFIX}")):
        return there[0]
    head = _head(folder)
    tables = sharded_in_order(base)
    revision = sha256(repr((head, slots, [each.name for each in tables])).encode()).hexdigest()[:12]
    path = folder / f"{revision}{_SUFFIX}"
    path.write_text("\n".join(_lines(revision, head, tables, slots)) + "\n")
    return path


def _described(table: Table, key: tuple[str, ...], parent: tuple[str, Table, str] | None = None) -> ShardedTable:
    named = None if parent is None else ParentColumn(column=parent[0], table=parent[1].name, target=parent[2])
    primary_key = tuple(each.name for each in table.primary_key.columns)
    return ShardedTable(mapped=table, bare=table, primary_key=primary_key, key=key, parent=named)


def _head(folder: Path) -> str | None:
    """Return the newest revision of a folder, None for an empty one."""
    found: dict[str, set[str]] = {}
    for path in sorted(folder.glob("*.py")):
        values = dict(_assigned(path))
        if isinstance(revision := values.get("revision"), str):
            below = values.get("down_revision") or ()
            found[revision] = {below} if isinstance(below, str) else {*below}  # type: ignore[misc]
    heads = sorted(found.keys() - {each for below in found.values() for each in below})
    if len(heads) > 1:
        raise InvalidInput("heads of the revisions", ", ".join(heads), "one", "Merge them first: alembic merge heads")
    return heads[0] if heads else None


def _assigned(path: Path) -> Iterator[tuple[str, object]]:
    """Yield the literals that a file assigns to names."""
    try:
        tree = ast.parse(path.read_text())
    except SyntaxError as error:
        raise InvalidInput("revision", str(path), "a file of Python", "Mend it first.") from error
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if (
                isinstance(target, ast.Name)
                and isinstance(node, (ast.Assign, ast.AnnAssign))
                and _is_literal(node.value)
            ):
                yield target.id, ast.literal_eval(node.value)  # type: ignore[arg-type]


def _is_literal(node: ast.expr | None) -> bool:
    return isinstance(node, (ast.Constant, ast.Tuple, ast.List)) and all(
        isinstance(each, (ast.Constant, ast.Tuple, ast.List, ast.expr_context)) for each in ast.walk(node)
    )


def _lines(revision: str, head: str | None, tables: Sequence[ShardedTable], slots: int) -> Iterator[str]:
    yield _HEAD.format(revision=revision, down=head, slots=slots).rstrip()
    for table in tables:
        yield from _declared(table)
    yield "\n\ndef upgrade() -> None:"
    for table in tables:
        yield from _upgraded(table)
    yield "\n\ndef downgrade() -> None:"
    for table in reversed(tables):
        if table.parent is not None:
            yield "    if op.get_bind().dialect.name != 'sqlite':"
            yield f"        op.drop_constraint({_foreign(table)!r}, {table.name!r})"
        yield f"    op.drop_index({_index(table)!r}, {table.name!r})"
        yield f"    op.drop_column({table.name!r}, 'slot')"


def _declared(table: ShardedTable) -> Iterator[str]:
    needed = {*table.primary_key, *table.key, *((table.parent.column,) if table.parent else ())}
    yield f"{_variable(table)} = sa.Table(\n    {table.name!r},\n    tables,"
    for column in table.mapped.columns:
        if column.name in needed:
            key = ", primary_key=True" if column.name in table.primary_key else ""
            yield f"    sa.Column({column.name!r}, sa.{column.type!r}{key}),"
    yield "    sa.Column('slot', sa.SmallInteger()),\n)"


def _upgraded(table: ShardedTable) -> Iterator[str]:
    name, parent = table.name, table.parent
    if parent is None:
        decided = f"key={table.key!r}"
    else:
        decided = f"parent=({parent.column!r}, {parent.table}_table, {parent.target!r})"
    yield f"    op.add_column({name!r}, sa.Column('slot', sa.SmallInteger(), nullable=True))"
    yield f"    fill_slots(op.get_bind(), {_variable(table)}, slots=SLOTS, {decided})"
    yield f"    op.create_index({_index(table)!r}, {name!r}, {['slot', *table.primary_key]!r}, unique=True)"
    yield "    if op.get_bind().dialect.name != 'sqlite':  # there, triggers refuse a row without its slot"
    yield f"        op.alter_column({name!r}, 'slot', nullable=False)"
    if parent is not None:
        columns, targets = ["slot", parent.column], ["slot", parent.target]
        words = ", ".join(map(repr, (_foreign(table), name, parent.table, columns, targets)))
        yield f"        op.create_foreign_key({words})"


def _variable(table: ShardedTable) -> str:
    return f"{table.name}_table"


def _index(table: ShardedTable) -> str:
    return f"{table.name}_by_slot"


def _foreign(table: ShardedTable) -> str:
    return f"{table.name}_slot_of_parent"
