"""`apportion completion`: a script that lets a shell complete commands and options."""

from typing import Literal


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print the script that completes commands and options in a shell.

    Parameters
    ----------
    shell
        The shell that reads the script.
    """
    from apportion.console.main import application  # noqa: PLC0415 - the entry point names this module

    print(application().generate_completion(prog_name="apportion", shell=shell))
