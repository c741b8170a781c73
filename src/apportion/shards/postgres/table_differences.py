"""Table differences: the columns, keys and unique lists in which the sharded tables of two shards differ.

Promises: each difference is one sentence that names the table, and the column where one differs.
"""

from collections.abc import Iterator, Mapping, Sequence

from apportion.errors import SchemaDiffers
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.tables import ServerTable, columns


def require_equal(group: MoveGroup, source: Sequence[ServerTable], target: Sequence[ServerTable]) -> None:
    """Raise `SchemaDiffers`, with each difference, unless both shards have the same sharded tables."""
    here, there = ({each.name: each for each in tables} for tables in (source, target))
    if here != there:
        found = [*table_differences((group.source, here), (group.target, there))]
        raise SchemaDiffers(f"shard {group.source}", f"shard {group.target}", found)


def require_still_equal(group: MoveGroup, source: Sequence[ServerTable], target: Sequence[ServerTable]) -> None:
    """Do the same in the middle of a move."""
    try:
        require_equal(group, source, target)
    except SchemaDiffers as error:
        rests = f"The move rests, and its slots stay on shard {group.source}."
        error.hint = f"{rests} Bring both shards to one schema. Then run the same call again, or abort the move."
        raise


def table_differences(
    first: tuple[str, Mapping[str, ServerTable]], second: tuple[str, Mapping[str, ServerTable]]
) -> Iterator[str]:
    """Yield each difference between the tables of two shards. Each shard is given by its id and its tables by name."""
    (here, ours), (there, theirs) = first, second
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in ours or name not in theirs:
            known, absent = (here, there) if name in ours else (there, here)
            yield f"{name} is a sharded table in shard {known} and none in shard {absent}"
        else:
            yield from _of_table(name, (here, ours[name]), (there, theirs[name]))


def _of_table(name: str, first: tuple[str, ServerTable], second: tuple[str, ServerTable]) -> Iterator[str]:
    (here, ours), (there, theirs) = first, second
    forms, others = dict(ours.columns), dict(theirs.columns)
    for column in sorted(forms.keys() | others.keys()):
        form, other = forms.get(column, "absent"), others.get(column, "absent")
        if form != other:
            yield f"{name}.{column} is {form} in shard {here} and {other} in shard {there}"
    if ours.key != theirs.key:
        said = f"({columns(ours.key)}) in shard {here} and ({columns(theirs.key)}) in shard {there}"
        yield f"the primary key of {name} is {said}"
    for unique in sorted(ours.uniques ^ theirs.uniques):
        shard = here if unique in ours.uniques else there
        yield f"{name} is unique over ({columns(unique)}) in shard {shard} alone"
