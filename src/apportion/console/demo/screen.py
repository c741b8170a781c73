"""Screen of the demonstration: the owners of partitions, live on a terminal, and a line for each event."""

import time
from collections import Counter

from rich.console import Console
from rich.live import Live
from rich.text import Text

from apportion.console.demo.work import PARTITIONS
from apportion.groups.view.view import View

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red", "bright_green", "bright_magenta")
_COLUMNS = 16


class Screen:
    """Prints lines; on a terminal, with a map of the partitions below them."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._console = Console(highlight=False, quiet=is_quiet)
        self._live = Live(console=self._console, refresh_per_second=12, transient=True)
        self._began = time.monotonic()
        self._owners: dict[int, str | None] = {}

    def __enter__(self) -> "Screen":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """Print a line with the elapsed seconds."""
        self._console.print(f"{time.monotonic() - self._began:5.1f} s  {text}", soft_wrap=True)

    def look(self, view: View) -> None:
        """Show the owner of each partition, and print the moves."""
        owners = {partition: owned.ownership.owner for partition, owned in view.own.items()}
        moves: Counter[tuple[str, str]] = Counter()
        for partition, owner in owners.items():
            before = self._owners.get(partition)
            if owner != before and owner is not None:
                moves[before or "nobody", owner] += 1
        for (source, owner), count in sorted(moves.items()):
            self.say(f"         {count:2} {'partition' if count == 1 else 'partitions'} from {source} to {owner}")
        self._owners |= {partition: owner for partition, owner in owners.items() if owner is not None}
        self._live.update(self._map(owners, view))

    def _map(self, owners: "dict[int, str | None]", view: View) -> Text:
        text = Text()
        for partition in range(PARTITIONS):
            owner = owners.get(partition)
            style = "dim" if owner is None else _COLOURS[int(owner.rpartition("-")[2]) % len(_COLOURS)]
            text.append(f"{partition:3}", style=style)
            text.append("\n" if partition % _COLUMNS == _COLUMNS - 1 else " ")
        loads = Counter(owner for owner in owners.values() if owner is not None)
        for name in sorted({*view.members, *loads}):
            style = _COLOURS[int(name.rpartition("-")[2]) % len(_COLOURS)]
            text.append(f"{name}: {loads[name]}   ", style=style)
        return text
