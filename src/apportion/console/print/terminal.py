"""Terminal: the width of a stream, and colour for it. Files and pipes have neither: they get plain, whole lines."""

import os
import shutil
from enum import StrEnum
from typing import TextIO

_FEWEST_COLUMNS = 20


class Colour(StrEnum):
    """A colour, as the parameters of its escape sequence."""

    RED = "31"
    GREEN = "32"
    YELLOW = "33"


def columns_of(stream: TextIO) -> int | None:
    """Return the width of a terminal in columns, None for any other stream. The variable COLUMNS comes first."""
    return max(_FEWEST_COLUMNS, shutil.get_terminal_size().columns) if stream.isatty() else None


def coloured(text: str, colour: Colour | None, stream: TextIO) -> str:
    """Return a text in a colour, if the stream is a terminal that shows colours and NO_COLOR is not set."""
    is_shown = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{colour}m{text}\x1b[0m" if colour is not None and is_shown else text
