"""Status report of shards: a line per shard, a line per move, and a summary at the end; or JSON."""

from collections.abc import Mapping

from apportion.console.print.output import print_columns, print_json, print_text
from apportion.shards.admin import SetStatus
from apportion.stores.catalog import shown_url


def print_status(act: str, url: str, found: SetStatus) -> None:
    """Print the shards of a set, and the moves that are not over."""
    has_rows = any(each.rows is not None for each in found.shards)
    headings = ("shard", "slots", "weight", *(["rows"] if has_rows else []))
    lines = [(each.id, str(each.slots), f"{each.weight:g}", _count(each.rows)) for each in found.shards]
    print_columns(headings, [line[: len(headings)] for line in lines])
    if found.moves:
        print()
        moves = [(each.id, f"{each.source} -> {each.target}", each.state, str(each.slots)) for each in found.moves]
        print_columns(("move", "shards", "state", "slots"), moves, words=3)
    for damage in found.damaged:
        print_text(f"- {damage} Look: apportion shards doctor URL {found.name}")
    print()
    count = len(found.shards)
    said = f"{count} shard{'s' if count > 1 else ''}, {found.hash_slots} slots"
    print_text(f"shards {act}: {found.name} in {shown_url(url)}: {said}")


def print_status_json(act: str, found: SetStatus, more: Mapping[str, object]) -> None:
    """Print the same as JSON, with all that each move has left behind so far, and `more` of the command."""
    print_json(
        f"shards {act}",
        set=found.name,
        version=str(found.version),
        slots=found.hash_slots,
        shards=[
            {"id": each.id, "url": each.url, "weight": each.weight, "slots": each.slots, "rows": each.rows}
            for each in found.shards
        ],
        moves=[
            {
                "id": each.id,
                "state": each.state,
                "source": each.source,
                "target": each.target,
                "slots": each.slots,
                "left_behind": list(each.left_behind),
                "attempts": each.attempt,
                "wish": each.wish,
                "pause_seconds": each.pause_seconds,
                "rows": each.rows,
                "copied": each.copied,
                "lag": each.lag,
                "problem": each.problem,
            }
            for each in found.moves
        ],
        damaged=list(found.damaged),
        **more,
    )


def _count(rows: int | None) -> str:
    return "?" if rows is None else str(rows)
