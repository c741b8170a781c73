"""Kept report: the kept tables of a file or a store, the newest first, each with its time and its change."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path

from apportion.console.files.kept import kept_files
from apportion.console.files.snapshots import Saved, read, read_with_bytes
from apportion.console.options.table_place import StoredTable
from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.print.progress import Progress
from apportion.errors import InvalidInput
from apportion.model.assignment import Assignment
from apportion.model.plan import Plan
from apportion.model.table import Table
from apportion.placement.plans import plan as plan_of

MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptEntry:
    """A kept value, or its fault, with its number, its time if it is known, and its place.

    `before` is the number of the value before it.
    """

    number: int
    before: int
    since: datetime | None
    value: Table | Assignment | str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLine:
    """One kept table: since when, the change that led to it, whether it is in force, and its place."""

    since: datetime | None
    state: str
    epoch: str
    change: str
    moved_ratio: float | None
    place: str


def print_kept(path: Path, kind: type[Saved], *, json: bool) -> None:
    """Print the kept tables or assignments of a file, the newest first."""
    with Progress("reading", is_shown=not json):
        held, value = read_with_bytes(path, kind)
        kept = kept_files(path)
        current = kept.equal_to(held)
        entries = [
            KeptEntry(
                number=each.number,
                before=each.before,
                since=each.since,
                value=_or_fault(partial(read, each.path, kind), str(each.path)),
                place=str(each.path),
            )
            for each in kept.files
        ]
        if current is None:
            since = datetime.fromtimestamp(path.stat().st_mtime, UTC).replace(microsecond=0)
            entries.append(_following(entries, value, since, str(path)))
        lines = list(_lines(entries, entries[-1].number if current is None else current.number))
    _print(str(path), lines, json=json)


def print_stored(table: StoredTable, *, json: bool) -> None:
    """Print the kept tables of a table in a store, the newest first."""
    with Progress("reading", is_shown=not json):
        value, kept = table.history()
        entries = [
            KeptEntry(
                number=each.number,
                before=each.before,
                since=datetime.fromtimestamp(each.since, UTC),
                value=_or_fault(partial(kept.value_of, each)),
                place=f"{table}/{each.number}",
            )
            for each in kept.tables
        ]
        current = kept.equal_to(value)
        if current is None:
            entries.append(_following(entries, value, None, str(table)))
        lines = list(_lines(entries, entries[-1].number if current is None else current.number))
    _print(str(table), lines, json=json)


def _following(entries: list[KeptEntry], value: Table | Assignment, since: datetime | None, place: str) -> KeptEntry:
    """Return the entry of a value that is not kept yet: it follows the newest kept one."""
    newest = entries[-1].number if entries else 0
    return KeptEntry(number=newest + 1, before=newest, since=since, value=value, place=place)


def _print(place: str, lines: list[KeptLine], *, json: bool) -> None:
    if json:
        listed = [
            {
                "since": line.since and line.since.isoformat(),
                "state": line.state,
                "epoch": line.epoch,
                "change": line.change,
                "moved_ratio": line.moved_ratio,
                "file": line.place,
            }
            for line in lines
        ]
        print_json("table log", file=place, kept=listed)
        return
    headings = ("when (UTC)", "state", "epoch", "change", "moved", "file")
    print_columns(headings, [_cells(line) for line in lines])
    count = Counter(line.state for line in lines)
    counts = f"{count['before']} earlier and {count['undone']} undone"
    print_text(f"\ntable log: {place} has {counts}; plan --to FILE leads to each of them")


def moved_between(before: Table | Assignment, after: Table | Assignment) -> float | None:
    """Return the share that moves from one value to another, None if nobody can tell."""
    change = _plan(before, after)
    return change.moved_ratio if change is not None and change.span else None


def _lines(entries: list[KeptEntry], current: int) -> Iterator[KeptLine]:
    at = {each.number: each for each in entries}
    earlier = set(_earlier(at, at[current].before))
    for each in reversed(entries):
        state = "now" if each.number == current else "before" if each.number in earlier else "undone"
        before = at.get(each.before)
        yield _line(each, None if before is None else before.value, state)


def _earlier(at: dict[int, KeptEntry], number: int) -> Iterator[int]:
    """Yield the numbers that an undo would lead to, one after another."""
    while (each := at.get(number)) is not None:
        yield number
        number = each.before if each.before < number else 0


def _or_fault(read: Callable[[], Table | Assignment], place: str = "") -> Table | Assignment | str:
    """Return a kept value, or its fault: one damaged value costs that value alone."""
    try:
        return read()
    except InvalidInput as error:
        return error.problem.removeprefix(f"{place}: ")


def _line(entry: KeptEntry, before: Table | Assignment | str | None, state: str) -> KeptLine:
    change, moved, epoch = "", None, ""
    if isinstance(entry.value, str):
        change = f"damaged: {entry.value}"
    else:
        epoch = str(entry.value.epoch)
        if before is not None and not isinstance(before, str):
            change, moved = _words(_plan(before, entry.value)), moved_between(before, entry.value)
    return KeptLine(since=entry.since, state=state, epoch=epoch, change=change, moved_ratio=moved, place=entry.place)


def _plan(before: Table | Assignment, after: Table | Assignment) -> Plan | None:
    try:
        return plan_of(before, after)
    except InvalidInput:  # of another cluster, or made by another hash function
        return None


def _words(change: Plan | None) -> str:
    """Return the changed nodes of a plan in a few words."""
    if change is None:
        return "another hash function or cluster"
    old, new = change.old, change.new
    words = [f"+{node_id}" for node_id in new.ids if node_id not in old]
    words += [f"-{node_id}" for node_id in old.ids if node_id not in new]
    words += [f"~{node_id}" for node_id in new.ids if node_id in old and old[node_id] != new[node_id]]
    more = f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    return " ".join(islice(words, MOST_NAMED)) + more or "same nodes"


def _cells(line: KeptLine) -> tuple[str, ...]:
    moved = "" if line.moved_ratio is None else f"{line.moved_ratio:.2%}"
    since = "" if line.since is None else f"{line.since:%Y-%m-%d %H:%M:%S}"
    return since, line.state, line.epoch, line.change, moved, line.place
