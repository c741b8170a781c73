"""Live: a reading that is shown again and again, on a screen or as lines, until Ctrl-C."""

import io
import time
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from typing import TypeVar

from rich.console import Console
from rich.live import Live
from rich.text import Text

Reading = TypeVar("Reading")
SECONDS = 1.0


class _Screen(io.StringIO):
    """Text that counts as a terminal, so that tables get the terminal's width."""

    def isatty(self) -> bool:
        """Return True: this text counts as a terminal."""
        return True


def show_live(read: Callable[[], Reading], show: Callable[[Reading], None], *, every: float = SECONDS) -> None:
    """Show a reading on the whole screen, anew every second until Ctrl-C; without a terminal, show it once."""
    console = Console(highlight=False)
    found = read()
    if not console.is_terminal:
        show(found)
        return
    with suppress(KeyboardInterrupt), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            with redirect_stdout(_Screen()) as printed:
                show(found)
            live.update(Text.from_ansi(printed.getvalue(), no_wrap=True, overflow="crop"), refresh=True)
            time.sleep(every)
            found = read()


def tell_live(read: Callable[[], Reading], tell: Callable[[Reading], None], *, every: float = SECONDS) -> None:
    """Tell a reading in lines, again and again until Ctrl-C. `tell` prints the changes since the reading before."""
    with suppress(KeyboardInterrupt):
        while True:
            tell(read())
            time.sleep(every)


def has_screen() -> bool:
    """Whether the output is a terminal, on which a screen can be shown."""
    return Console().is_terminal
