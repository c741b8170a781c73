"""The entry point: finds the command, and turns every error into three lines and an exit code.

Exit codes: 0 done (for `plan`: no change), 2 changes pending (of `plan`, nothing else), 1 any error, 130 interrupted.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from apportion import __version__
from apportion.errors import ApportionError

if TYPE_CHECKING:
    from cyclopts import App

COMMANDS = {
    "apply": "Carry a saved plan out on the saved table it was made from.",
    "compare": "Measure all placements on your nodes and keys, side by side.",
    "demo": "Route real keys and plan a change, in plain words.",
    "doctor": "Check that this installation gives the answers of every other one.",
    "explain": "Say why a node handles a key.",
    "hotkeys": "List the keys that come most often, with proven bounds.",
    "plan": "Show what a change of nodes would move, before it moves.",
    "route": "Print which node handles each key.",
}
TABLE_COMMANDS = {
    "diff": "Show exactly what differs between two saved tables.",
    "export": "Save every answer of a placement as ranges and owners.",
    "import": "Read ranges made elsewhere from CSV.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    try:
        from cyclopts import CycloptsError  # noqa: PLC0415 - an extra, which may be absent
    except ModuleNotFoundError:
        print("error: the command line is an extra that is not installed.", file=sys.stderr)
        print("Install it with: pip install 'apportion[cli]'", file=sys.stderr)
        return 1
    try:
        code = application()(arguments, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except ApportionError as error:
        return _failed(str(error))
    except CycloptsError as error:
        return _failed(f"{error}\nSee apportion --help.")
    except KeyboardInterrupt:
        print("interrupted; files are as they were, or whole.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code if isinstance(code, int) else 0


def application() -> "App":
    """Return the command line as an object; each command's file is imported when it is used."""
    from cyclopts import App  # noqa: PLC0415

    app = App(
        name="apportion",
        help="Decide which node handles what, and see what a change would move before it moves.",
        version=__version__,
        result_action="return_value",
    )
    for name, words in COMMANDS.items():
        module = "demo.command" if name == "demo" else name
        app.command(f"apportion.console.{module}:{name}", name=name, help=words)
    table = App(name="table", help="Save, read and compare tables of ranges and owners.")
    for name, words in TABLE_COMMANDS.items():
        table.command(f"apportion.console.table:{name}_table", name=name, help=words)
    app.command(table)
    return app


def _failed(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
