"""Screen of a demonstration: a line for each event, and on a terminal a live picture below them."""

import time

from rich.console import Console
from rich.live import Live
from rich.text import Text

COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red", "bright_green", "bright_magenta")


class Screen:
    """Prints lines; on a terminal, with the latest picture below them."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._console = Console(highlight=False, quiet=is_quiet)
        self._live = Live(console=self._console, refresh_per_second=12, transient=True)
        self._began = time.monotonic()

    def __enter__(self) -> "Screen":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """Print a line with the elapsed seconds."""
        self._console.print(f"{time.monotonic() - self._began:5.1f} s  {text}", soft_wrap=True)

    def show(self, picture: Text) -> None:
        """Show a picture in place of the last one."""
        self._live.update(picture)


def colour_of(worker: str) -> str:
    """Return the colour of a worker, by the number at the end of its name."""
    return COLOURS[int(worker.rpartition("-")[2]) % len(COLOURS)]
