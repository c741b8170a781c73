"""Main: the entry point, which finds the command and turns every error into a message, a hint and an exit code.

Exit codes: 0 done (for `plan`: no change), 2 changes pending (only of `plan` commands), 1 any error, 130 interrupted.
"""

import errno
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from apportion import __version__
from apportion.console.options.configured import Taken, sources
from apportion.console.options.store_url import with_url
from apportion.console.print.terminal import Colour, coloured
from apportion.errors import ApportionError, InvalidInput

if TYPE_CHECKING:
    from cyclopts import App

COMMANDS = {
    "apply": "Apply a saved plan to the table or assignment that it was made from.",
    "assign": "Assign partitions to nodes with the fewest moves.",
    "compare": "Measure all placements on your nodes and keys, side by side.",
    "completion": "Print the script that completes commands and options in a shell.",
    "demo": "Let processes share real work, kill some, and prove that nothing was lost.",
    "doctor": "Check that this installation gives the same answers as all others, or check a store.",
    "evaluate": "Compare balancers on clusters that fail, grow and change.",
    "explain": "Show why a node handles a key.",
    "explain-error": "Show the meaning of an error and the next step.",
    "hotkeys": "List the most frequent keys, with proven bounds.",
    "plan": "Preview the moves of a change of nodes.",
    "route": "Print the node of each key.",
    "tour": "Route real keys and plan a change, in plain words.",
    "undo": "Go back to the table or assignment before the last change.",
}
TABLE_COMMANDS = {
    "diff": "Show the exact difference between two saved tables.",
    "export": "Save every answer of a placement as ranges and owners.",
    "import": "Read ranges from CSV, or the present state of another system.",
    "log": "List the last tables of a file, with their time, change and moves.",
    "repair": "Publish the newest version of a table again, so that all followers can read it.",
}
GROUP_COMMANDS = {
    "apply": "Apply a saved plan: drain and forget members of its group.",
    "drain": "Take all partitions from a member, and wait until it has none.",
    "explain": "Show the owner of a partition, the step it waits for, and its history (also: why).",
    "forget": "Forget a static member that will not come back. This cannot be undone.",
    "ls": "List the groups of a store.",
    "plan": "Preview the moves if members join, leave or drain.",
    "release": "Let the next owner take a quarantined or waiting partition at once.",
    "repair": "Rewrite damaged records, so that members serve their partitions again.",
    "resize": "Give an empty group another number of partitions.",
    "run": "Join a group, and run a command for each owned partition.",
    "show": "Show members, target, and all that is out of order.",
    "top": "Show a group live, until Ctrl-C.",
    "undrain": "Withdraw a drain, so that the member gets partitions again.",
    "watch": "Print each change as it happens, with its reason.",
}
ALIASES = {"explain": ("why",)}
_NAMES = {alias: name for name, aliases in ALIASES.items() for alias in aliases}
GUARD_COMMANDS = {
    "check": "Check that a fencing token is the newest: a guard for shell scripts.",
}
STORE_COMMANDS = {
    "grants": "Print the statements that give a user the rights of a member.",
    "restored": "Tell members that the store was restored from a copy, so that they join again.",
    "upgrade": "Create the schema of a store, or bring it to the newest version.",
}
TASK_COMMANDS = {
    "cancel": "Cancel tasks by id, or all waiting ones of a queue.",
    "enqueue": "Add a task to a queue, and print its id.",
    "limit": "Limit the running tasks of a queue, and its starts per time, over all workers.",
    "ls": "List the tasks of a queue, a page at a time.",
    "pause": "Stop new starts of a queue, over all workers.",
    "purge": "Forget the tasks of a queue in some states. This cannot be undone.",
    "redrive": "Make dead or cancelled tasks ready again, by id, or those of a queue.",
    "resize": "Give a queue another number of partitions for its keys.",
    "resume": "Allow the starts of a paused queue again.",
    "retry": "Make delayed tasks ready now, by id, or all delayed ones of a queue.",
    "show": "Show tasks: state, attempts, reason, arguments, and the owner of a key.",
    "stats": "Show the numbers of each queue.",
    "top": "Show queues, busy keys and workers live, until Ctrl-C.",
    "why": "Show why tasks are not done yet, and the next step.",
    "worker": "Run the tasks of the queues of a program.",
    "workers": "List the live workers.",
}
CRON_COMMANDS = {
    "apply": "Store the schedules of a program, in place of its earlier ones.",
    "history": "Show the last slots of a schedule: when, by which worker, with which task.",
    "ls": "List schedules with their faults.",
    "next": "Print the next slots of a rule or of a schedule, and explain clock changes.",
    "pause": "Stop the firing of a schedule.",
    "plan": "Show how the stored schedules differ from those of a program.",
    "resume": "Let a paused schedule fire again.",
    "rm": "Forget a schedule and its history. This cannot be undone.",
    "run-now": "Add a task of a schedule now.",
}
SHARD_COMMANDS = {
    "abort": "Take back all moves that have not switched.",
    "accept-failover": "Let a shard serve after a fail-over of its server.",
    "add": "Add empty databases to a set, as its shards.",
    "apply": "Carry out a plan while programs write.",
    "clean": "Delete the old rows of moves that have ended.",
    "doctor": "Compare a set with its databases, and its databases with each other.",
    "drain": "Give all slots of a shard to the others.",
    "each": "Run a command once for each shard.",
    "explain": "Show how a statement would be split over all shards.",
    "hot": "Show the keys, slots and shards with the most sessions, and the next steps.",
    "init": "Make a set of shards out of databases.",
    "isolate": "Give a key with rows a slot of its own, on a shard of your choice.",
    "labels": "Print the names of the points at which a fire drill can kill a mover.",
    "merge": "Join two neighbouring ranges of one shard.",
    "migrate": "Bring all shards to one revision with your own Alembic.",
    "partitions": "Make the next periods of tables with a time, and drop old ones.",
    "pause": "Pause the moves that have not switched.",
    "pin": "Give slots of their own to keys without rows.",
    "plan": "Show the slots, rows and bytes that a change moves.",
    "query": "Run one statement of SQL that reads on each shard.",
    "rebalance": "Bring each shard to its share, if the shards are uneven.",
    "recover": "Bring a restored control store up to the state of its shards.",
    "remove": "Take a shard without slots and rows out of a set.",
    "repair": "Rewrite a damaged list of moving slots.",
    "reverse": "Undo the switch of reversible moves, with all later writes.",
    "route": "Print the slot and the shard of each key.",
    "split": "Divide the range of a slot at a key, while programs write.",
    "status": "Show the shards of a set, with their slots and rows, and its moves.",
    "verify": "Compare every row of a set with its slot.",
}
_SHARD_MOVES = ("abort", "clean", "drain", "labels", "pause", "plan", "rebalance", "recover", "reverse", "verify")
_SHARD_FILES = {
    "accept-failover": "failover",
    "apply": "apply",
    "each": "each",
    "explain": "explain",
    "hot": "hot",
    "isolate": "isolate",
    "merge": "ranges",
    "query": "query",
    "migrate": "migrate",
    "partitions": "partitions",
    "split": "ranges",
    **dict.fromkeys(_SHARD_MOVES, "moves"),
}
_ROOMS = {
    "table": TABLE_COMMANDS,
    "group": GROUP_COMMANDS,
    "guard": GUARD_COMMANDS,
    "store": STORE_COMMANDS,
    "tasks": TASK_COMMANDS,
    "cron": CRON_COMMANDS,
    "shards": SHARD_COMMANDS,
}
_WHERE = "Without a URL, the commands take it from --url-file FILE or APPORTION_STORE."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        print("interrupted; each written file is unchanged or complete, and the output ends here.", file=sys.stderr)
        return 130


def _run(arguments: Sequence[str] | None) -> int:
    try:
        from cyclopts import CycloptsError  # noqa: PLC0415 - an extra, which may be absent
    except ModuleNotFoundError:
        print("error: the command line is an extra that is not installed.", file=sys.stderr)
        print("Install it with: pip install 'apportion[cli]'", file=sys.stderr)
        return 1
    from apportion.console.options import mistakes  # noqa: PLC0415 - it imports the extra

    _make_streams_usable()
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = given[: given.index("--")] if "--" in given else given
    taken = Taken(is_json="--json" in options)
    try:
        import_module("apportion.runtime")  # refuses Windows
        code = application(taken)(with_url(given, os.environ), exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except ApportionError as error:
        error.hint += f"\nOrigin: {', '.join(taken.options)}." if taken.options else ""
        return _failed(error, options, is_json=taken.is_json)
    except CycloptsError as error:
        return _failed(mistakes.of_parser(error, application()), options, is_json=taken.is_json)
    except OSError as error:
        return _cannot_print(error, is_json=taken.is_json)
    return code if isinstance(code, int) else 0


def _make_streams_usable() -> None:
    """Replace streams that were closed before the start, and never fail to print a character."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _cannot_print(error: OSError, *, is_json: bool) -> int:
    """Report that the output could not be written, unless the reader of the output has gone.

    If the error names a file, or the current folder is gone, report an error of that path instead.
    """
    if error.filename is not None or error.errno == errno.ENOENT:
        path = "the current folder" if error.filename is None else os.fsdecode(error.filename)
        expected, hint = f"one that can be used ({error.strerror})", "Check the path and its permissions."
        return _failed(InvalidInput("path", path, expected, hint), (), is_json=is_json)
    # Python would otherwise complain again when it flushes at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 1
    problem = f"the output could not be written ({error.strerror})."
    hint = "Free space, or print elsewhere. The command may have done its work: look before you run it again."
    return _failed(ApportionError(problem, hint), (), is_json=is_json)


def application(taken: Taken | None = None) -> "App":
    """Return the command line as an object. The file of a command is imported when the command is used.

    A run notes in `taken` each option that is not from the command line, with its origin.
    """
    from cyclopts import App  # noqa: PLC0415

    app = App(
        name="apportion",
        help="Route keys to nodes, share partitions, and preview the moves of each change.",
        version=__version__,
        config=sources({**dict.fromkeys(COMMANDS, ()), **_ROOMS}, _NAMES, taken or Taken()),
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    for name, words in COMMANDS.items():
        module = f"{name}.command" if (Path(__file__).parent / name).is_dir() else name
        app.command(f"apportion.console.{module}:{name}".replace("-", "_"), name=name, help=words)
    app.command(_help_of(app), name="help", help="Show the help of a command, like its --help.")
    table = App(name="table", help="Save, read and compare tables of ranges and owners.")
    for name, words in TABLE_COMMANDS.items():
        table.command(f"apportion.console.table:{name}_table", name=name, help=words)
    app.command(table)
    group = App(name="group", help=f"Look at groups, and ask their members to act. {_WHERE}")
    for name, words in GROUP_COMMANDS.items():
        names = (name, *ALIASES.get(name, ()))
        group.command(f"apportion.console.group.command:{name}_group", name=names, help=words)
    app.command(group)
    guard = App(name="guard", help=f"Stop the writes of scripts after their member was replaced. {_WHERE}")
    for name, words in GUARD_COMMANDS.items():
        guard.command(f"apportion.console.guard:{name}_guard", name=name, help=words)
    app.command(guard)
    store = App(name="store", help=f"Look after a store: its schema, its rights, and its restores. {_WHERE}")
    for name, words in STORE_COMMANDS.items():
        store.command(f"apportion.console.store:{name}_store", name=name, help=words)
    app.command(store)
    tasks = App(name="tasks", help=f"Run tasks, and look after their queues. {_WHERE}")
    for name, words in TASK_COMMANDS.items():
        tasks.command(f"apportion.console.tasks.command:{name}_tasks", name=name, help=words)
    app.command(tasks)
    cron = App(name="cron", help=f"Look ahead in schedules, deploy them, and look after them. {_WHERE}")
    for name, words in CRON_COMMANDS.items():
        cron.command(f"apportion.console.cron.command:{name}_cron".replace("-", "_"), name=name, help=words)
    app.command(cron)
    shards = App(name="shards", help=f"Spread rows over databases, and look after them. {_WHERE}")
    for name, words in SHARD_COMMANDS.items():
        module = _SHARD_FILES.get(name, "command")
        shards.command(f"apportion.console.shards.{module}:{name}_shards".replace("-", "_"), name=name, help=words)
    app.command(shards)
    return app


def _help_of(app: "App") -> Callable[..., object]:
    """Return the command that prints the help of another command."""

    def help_of(*command: str) -> object:
        """Show the help of a command, like its --help.

        Parameters
        ----------
        command
            Words of the command, such as `table log`. Without them, the list of commands.
        """
        return app([*command, "--help"], exit_on_error=False, print_error=False)

    return help_of


def _failed(error: ApportionError, options: Sequence[str], *, is_json: bool) -> int:
    """Print an error in the words of the command line: as text, or as one JSON object."""
    from apportion.console.options.mistakes import said  # noqa: PLC0415 - it imports the extra

    public = [each.__name__ for each in type(error).__mro__ if each.__module__.startswith("apportion.errors")]
    code, message, hint = public[0], said(error.problem, options), said(error.hint)
    if is_json:
        expected = getattr(error, "expected", None)
        told = {"error": code, "message": message, "expected": expected and said(expected), "hint": hint}
        print(json.dumps({"format_version": 1, **told}, ensure_ascii=False), file=sys.stderr)
        return 1
    text = f"error: {message}\n{hint}"
    if sys.stderr.isatty():
        from apportion.console.print.output import wrapped  # noqa: PLC0415 - files and pipes need no rich

        text = wrapped(f"{text}\nMore: apportion explain-error {code}", sys.stderr)
    print(text.replace("error:", coloured("error:", Colour.RED, sys.stderr), 1), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
