"""`apportion shards status --watch`: a set on a live screen; in a pipe, a line for each change."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from apportion.console.print.live import has_screen, show_live, tell_live
from apportion.console.print.output import print_json_line
from apportion.console.shards.pace_report import pace_line
from apportion.console.shards.status_report import members_of_move, members_of_set, print_status, step_line, steps_of
from apportion.errors import InvalidInput
from apportion.shards.admin import MoveStatus, SetStatus
from apportion.shards.admin.watch import SetWatch, WatchedSet

EVERY = timedelta(seconds=1)


def watch_status(url: str, name: str, every: timedelta, *, json: bool) -> None:
    """Show a set until Ctrl-C: on a screen, or as a line for each change, or as a JSON object for each change."""
    if not every > timedelta(0):
        raise InvalidInput(
            "--every",
            f"{every.total_seconds():g}s",
            "a time above 0",
            "Write --every 2s, or leave it out for 1 second.",
        )
    watch, seconds = SetWatch(url, name), every.total_seconds()

    def _read() -> WatchedSet:
        return asyncio.run(watch.read())

    if json:
        tell_live(_read, JsonLines().tell, every=seconds)
    elif has_screen():
        show_live(_read, lambda found: print_status("status", url, found.status, found.paces), every=seconds)
    else:
        tell_live(_read, ChangeLines().tell, every=seconds)


class ChangeLines:
    """Prints a line for each new table, each move that changed or is over, and each shard with another next step."""

    def __init__(self) -> None:
        self._table = ""
        self._moves: dict[str, MoveStatus] = {}
        self._steps: dict[str, tuple[str, str]] = {}

    def tell(self, found: WatchedSet) -> None:
        """Print the changes since the reading before. The first reading is all new."""
        table = _table_line(found.status)
        if table != self._table:
            self._say(table)
        now = {each.id: _steady(each) for each in found.status.moves}
        for pace in found.paces:
            if now[pace.move.id] != self._moves.get(pace.move.id):
                self._say(pace_line(pace))
        for move in self._moves.keys() - now.keys():
            self._say(f"{move}: over")
        for step in steps_of(found.status):
            if (step.step, step.command) != self._steps.get(step.shard, ("clean", "")):
                self._say(step_line(step))
            self._steps[step.shard] = step.step, step.command
        self._table, self._moves = table, now

    @staticmethod
    def _say(line: str) -> None:
        print(line, flush=True)


class JsonLines:
    """Prints a set as one line of JSON for each change."""

    def __init__(self) -> None:
        self._before: SetStatus | None = None

    def tell(self, found: WatchedSet) -> None:
        """Print the whole set if it has changed since the reading before."""
        now = replace(found.status, moves=tuple(replace(each, wal_kept_bytes=None) for each in found.status.moves))
        if now == self._before:
            return
        self._before = now
        moves = [
            {
                **members_of_move(pace.move),
                "rows_per_second": pace.rows_per_second,
                "seconds_left": pace.seconds_left,
                "idle_seconds": pace.idle_seconds,
            }
            for pace in found.paces
        ]
        print_json_line("shards status", members_of_set(found.status) | {"moves": moves})


def _steady(move: MoveStatus) -> MoveStatus:
    """Return a move without two facts that change while the move stands still: its counted rows and its kept WAL."""
    return replace(move, rows=None, wal_kept_bytes=None)


def _table_line(found: SetStatus) -> str:
    shards = ", ".join(f"{each.id} {each.slots} slots" for each in found.shards)
    return f"{found.name}: version {found.version}: {shards}"
