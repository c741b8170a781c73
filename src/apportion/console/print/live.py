"""Live: a screen that is read and shown again and again, until Ctrl-C."""

import io
import time
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from typing import TypeVar

from rich.console import Console
from rich.live import Live
from rich.text import Text

Reading = TypeVar("Reading")
_SECONDS = 1.0


class _Screen(io.StringIO):
    """Text that counts as a terminal, so that tables get the terminal's width."""

    def isatty(self) -> bool:
        """Return True: this text counts as a terminal."""
        return True


def show_live(read: Callable[[], Reading], show: Callable[[Reading], None]) -> None:
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
            time.sleep(_SECONDS)
            found = read()
