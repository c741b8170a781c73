"""Made report of shards: the moves that a command has made, with their slots, their copied rows and their pauses."""

from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.shards.move_bar import MoveBar
from apportion.shards.admin import MovesMade

_REST = {
    "apply": "another process has paused or aborted the rest; go on with the same command",
    "drain": "another process has paused or aborted the rest; go on with the same command",
    "rebalance": "another process has paused or aborted the rest; go on with the same command",
    "reverse": "another process has paused or aborted the rest; go on with the same command",
    "abort": "something is left; look with: apportion shards status URL SET",
    "clean": "others ended too recently; see --soak",
}


_ENDED = "a limit has stopped a move"


def print_made(act: str, name: str, made: MovesMade, bar: MoveBar) -> None:
    """Print a line per move, and a summary at the end."""
    rows = []
    for move in made.moves:
        facts = bar.moves.get(move)
        if facts is not None:
            pause = "" if facts.pause is None else f"{1_000 * facts.pause:.0f} ms"
            rows.append((move, f"{facts.source} -> {facts.target}", str(facts.slots), str(facts.copied), pause))
    if rows:
        print_columns(("move", "shards", "slots", "copied", "pause"), rows, words=2)
        print()
    if made.why:
        print_text(f"- {made.why}")
    rest = "" if made.is_whole else f"; {_ENDED if made.why else _REST[act]}"
    forgone = sum(facts.is_forgone for facts in bar.moves.values())
    ended = f", {forgone} of them can no longer be reversed" if forgone else ""
    print_text(f"shards {act}: {name}: {len(made.moves)} moves{ended}{rest}")


def print_made_json(act: str, name: str, made: MovesMade, bar: MoveBar) -> None:
    """Print the same as JSON."""
    known = [(move, bar.moves[move]) for move in made.moves if move in bar.moves]
    moves = [
        {
            "id": move,
            "source": facts.source,
            "target": facts.target,
            "slots": facts.slots,
            "copied": facts.copied,
            "pause_ms": None if facts.pause is None else round(1_000 * facts.pause, 1),
        }
        for move, facts in known
    ]
    print_json(f"shards {act}", set=name, complete=made.is_whole, why=made.why, moves=moves)
