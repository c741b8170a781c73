"""Board: the workers and their counts as a picture, and a line for each worker that ended by itself."""

from rich.text import Text

from apportion.console.demo.fleet import Fleet
from apportion.console.demo.screen import Screen, colour_of
from apportion.console.demo.tasks.library import Counts

_WIDTH = 60


class Board:
    """The progress of the workers on a screen."""

    def __init__(self, screen: Screen, total: int) -> None:
        self._screen, self._total = screen, total

    def look(self, fleet: Fleet) -> None:
        """Show how many files each worker has counted."""
        counts, alive = Counts(fleet.file).by_worker(), fleet.names
        text = Text()
        for name in sorted({*counts, *alive}):
            number = counts.get(name, 0)
            style = colour_of(name) if name in alive else "dim"
            text.append(f"{name} {number:5} ", style=style)
            text.append("█" * round(number * _WIDTH / self._total) + "\n", style=style)
        text.append(f"{sum(counts.values()):14} of {self._total} files")
        self._screen.show(text)
