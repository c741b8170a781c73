"""Report of a survey: the shard keys of a database, and all that will refuse to move."""

from dataclasses import asdict
from pathlib import Path

from apportion.console.print.output import print_columns, print_json, print_text
from apportion.shards import admin

_HEADINGS = ("table", "slot by", "rows", "keys", "CV")
_SKEWED = 0.15
_SHOWN_KEYS = 3


def print_survey(found: admin.SetSurvey) -> None:
    """Print the keys of each table with rows, then the obstacles. Without tables and obstacles, print nothing."""
    if found.tables:
        print_columns(_HEADINGS, [_line(each) for each in found.tables], words=2)
        print()
        for each in found.tables:
            if each.largest:
                print_text(f"{each.table}: {_largest(each)}")
            if (each.cv_ratio or 0) > _SKEWED:
                print_text(f"{each.table}: uneven on {found.shards} shards, because there are few keys, or large ones.")
    for obstacle in found.obstacles:
        print_text(f"{obstacle.table}: {obstacle.found}. {obstacle.advice}")
    if found.tables or found.obstacles:
        print()


def print_checked(name: str, found: admin.SetSurvey, revision: Path | None, *, json: bool) -> None:
    """Print the end of a check that made no set, and perhaps wrote a revision."""
    if json:
        written = None if revision is None else str(revision)
        print_json("shards init", set=name, made=False, revision=written, survey=asdict(found))
        return
    place = f"shard {found.shard} has the rows" if found.shard else "no database has rows"
    made = "nothing was made" if revision is None else f"only {revision} was written"
    print_text(f"shards init: {name}: {place}, {len(found.obstacles)} obstacles to a move; {made}")


def _line(table: admin.TableSurvey) -> tuple[str, ...]:
    keys = "" if table.keys is None else str(table.keys)
    spread = "" if table.cv_ratio is None else f"{table.cv_ratio:.2f}"
    return table.table, table.decided_by, str(table.rows), keys, spread


def _largest(table: admin.TableSurvey) -> str:
    shares = [f"{each.key} {each.rows / table.rows:.0%}" for each in table.largest[:_SHOWN_KEYS]]
    return f"largest keys {', '.join(shares)}"
