"""Board: the workers and their visits as a picture."""

from rich.text import Text

from apportion.console.demo.fleet import Fleet
from apportion.console.demo.keys.atlas import Visits
from apportion.console.demo.screen import Screen, colour_of

_WIDTH = 60


class VisitBoard:
    """The visits of the workers on a screen."""

    def __init__(self, screen: Screen, total: int) -> None:
        self._screen, self._total = screen, total

    def look(self, fleet: Fleet) -> None:
        """Show how many places each worker has visited."""
        counts, alive = Visits(fleet.file).by_worker(), fleet.names
        text = Text()
        for name in sorted({*counts, *alive}):
            number = counts.get(name, 0)
            style = colour_of(name) if name in alive else "dim"
            text.append(f"{name} {number:5} ", style=style)
            text.append("█" * round(number * _WIDTH / self._total) + "\n", style=style)
        text.append(f"{sum(counts.values()):14} of {self._total} places")
        self._screen.show(text)
