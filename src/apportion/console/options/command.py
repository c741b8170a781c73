"""Command: the words after two hyphens, a command of the user that one of ours runs."""

import shutil
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from apportion.errors import InvalidInput

Command = Annotated[str, Parameter(allow_leading_hyphen=True)]


def check_command(command: Sequence[str], example: str) -> None:
    """Refuse an absent command, and one that cannot be run. `example` is a whole command line."""
    if not command:
        hint = f"Write it after two hyphens: {example}"
        raise InvalidInput("command", "", "a command and its arguments", hint)
    if shutil.which(command[0]) is None:
        hint = "Is the program on the PATH, and executable?"
        raise InvalidInput("command", command[0], "a program that can be run", hint)
