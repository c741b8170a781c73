"""Kept report: the kept tables of a file, the newest first, with the time and the change that led to each."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from apportion.console.files.kept import KeptFiles, kept_files
from apportion.console.files.snapshots import Saved, read_with_bytes
from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.print.progress import Progress
from apportion.errors import InvalidInput
from apportion.model.assignment import Assignment
from apportion.model.plan import Plan
from apportion.model.table import Table
from apportion.placement.change import plan as plan_of

MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLine:
    """One kept table: since when, the change that led to it, whether it is in force, and its file."""

    since: datetime
    state: str
    epoch: str
    change: str
    moved_ratio: float | None
    path: Path


def print_kept(path: Path, kind: type[Saved], *, json: bool) -> None:
    """Print the kept tables or assignments of a file, the newest first."""
    with Progress("reading", "tables" if kind is Table else "assignments", is_shown=not json) as progress:
        lines = list(progress.each(_lines(path, kind)))
    if json:
        listed = [
            {
                "since": line.since.isoformat(),
                "state": line.state,
                "epoch": line.epoch,
                "change": line.change,
                "moved_ratio": line.moved_ratio,
                "file": str(line.path),
            }
            for line in lines
        ]
        print_json("table log", file=str(path), kept=listed)
        return
    headings = ("when (UTC)", "state", "epoch", "change", "moved", "file")
    print_columns(headings, [_cells(line) for line in lines])
    count = Counter(line.state for line in lines)
    print_text(
        f"\ntable log: {path} has {count['before']} earlier and {count['undone']} undone; plan --to FILE leads to each"
    )


def moved_between(before: Table | Assignment, after: Table | Assignment) -> float | None:
    """Return the share that moves from one value to another, None if nobody can tell."""
    change = _plan(before, after)
    return change.moved_ratio if change is not None and change.span else None


def _lines(path: Path, kind: type[Saved]) -> Iterator[KeptLine]:
    held, value = read_with_bytes(path, kind)
    kept = kept_files(path)
    current = kept.equal_to(held)
    values: dict[int, Saved | str] = {each.number: _value(each.path, kind) for each in kept.files}
    if current is None:
        since = datetime.fromtimestamp(path.stat().st_mtime, UTC).replace(microsecond=0)
        newest = values[kept.files[-1].number] if kept.files else None
        yield _line(value, newest, since=since, state="now", path=path)
        earlier = set(_earlier(kept, kept.files[-1].number if kept.files else 0))
    else:
        earlier = set(_earlier(kept, current.before))
    for each in reversed(kept.files):
        state = "now" if each == current else "before" if each.number in earlier else "undone"
        yield _line(values[each.number], values.get(each.before), since=each.since, state=state, path=each.path)


def _earlier(kept: KeptFiles, number: int) -> Iterator[int]:
    """Yield the numbers that an undo would lead to, one after another."""
    while (each := kept.at(number)) is not None:
        yield each.number
        number = each.before if each.before < each.number else 0


def _value(path: Path, kind: type[Saved]) -> Saved | str:
    """Return a kept value, or its fault: one damaged file costs that file alone."""
    try:
        return read_with_bytes(path, kind)[1]
    except InvalidInput as error:
        return error.problem.removeprefix(f"{path}: ")


def _line(value: Saved | str, before: Saved | str | None, *, since: datetime, state: str, path: Path) -> KeptLine:
    change, moved, epoch = "", None, ""
    if isinstance(value, str):
        change = f"damaged: {value}"
    else:
        epoch = str(value.epoch)
        if before is not None and not isinstance(before, str):
            change, moved = _words(_plan(before, value)), moved_between(before, value)
    return KeptLine(since=since, state=state, epoch=epoch, change=change, moved_ratio=moved, path=path)


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
    return f"{line.since:%Y-%m-%d %H:%M:%S}", line.state, line.epoch, line.change, moved, str(line.path)
