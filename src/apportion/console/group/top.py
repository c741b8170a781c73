"""Top: a live screen of a group. It reads the group again and again, and shows each reading like `group show`."""

import io
import time
from contextlib import redirect_stdout, suppress

from rich.console import Console
from rich.live import Live
from rich.text import Text

from apportion.console.group.report import print_group
from apportion.sync import admin

_SECONDS = 1.0


class _Screen(io.StringIO):
    """Text for the terminal, so that tables have its width."""

    def isatty(self) -> bool:
        """Return that this is a terminal."""
        return True


def show_live(url: str, name: str) -> None:
    """Show a group on the whole screen until Ctrl-C; without a terminal, show it once."""
    console = Console(highlight=False)
    found = admin.read(url, name)
    if not console.is_terminal:
        print_group(found, every=False)
        return
    with suppress(KeyboardInterrupt), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            with redirect_stdout(_Screen()) as printed:
                print_group(found, every=False)
            live.update(Text.from_ansi(printed.getvalue(), no_wrap=True, overflow="crop"), refresh=True)
            time.sleep(_SECONDS)
            found = admin.read(url, name)
