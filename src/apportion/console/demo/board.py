"""Board: the workers of a demonstration of tasks and their work as a picture."""

from collections.abc import Callable, Mapping
from pathlib import Path

from rich.text import Text

from apportion.console.demo.fleet import Fleet
from apportion.console.demo.screen import Screen, colour_of

_WIDTH = 60


class Board:
    """The progress of the workers on a screen. `by_worker` counts the work of each worker in the file of the fleet."""

    def __init__(self, screen: Screen, total: int, things: str, by_worker: Callable[[Path], Mapping[str, int]]) -> None:
        self._screen, self._total, self._things, self._by_worker = screen, total, things, by_worker

    def look(self, fleet: Fleet) -> None:
        """Show how much each worker has done."""
        counts, alive = self._by_worker(fleet.file), fleet.names
        text = Text()
        for name in sorted({*counts, *alive}):
            number = counts.get(name, 0)
            style = colour_of(name) if name in alive else "dim"
            text.append(f"{name} {number:5} ", style=style)
            text.append("█" * round(number * _WIDTH / self._total) + "\n", style=style)
        text.append(f"{sum(counts.values()):14} of {self._total} {self._things}")
        self._screen.show(text)
