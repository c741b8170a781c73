"""`apportion demo`: shows live how processes share real work on one file, and come, go, die and sleep."""

import sys
from json import dumps
from shutil import get_terminal_size
from textwrap import wrap
from typing import Annotated, Literal, Protocol

from cyclopts import Parameter

from apportion.console.demo.cron.show import MEANINGS as OF_CRON
from apportion.console.demo.cron.show import show_cron
from apportion.console.demo.groups.show import MEANINGS as OF_GROUPS
from apportion.console.demo.groups.show import show_groups
from apportion.console.demo.keys.show import MEANINGS as OF_KEYS
from apportion.console.demo.keys.show import show_keys
from apportion.console.demo.screen import Screen
from apportion.console.demo.signals import ended_by_signals
from apportion.console.demo.tasks.show import MEANINGS as OF_TASKS
from apportion.console.demo.tasks.show import show_tasks
from apportion.console.demo.verdict import Verdict
from apportion.errors import InvalidInput

_MEANING_BEGINS, _NARROWEST = 39, 30


class Show(Protocol):
    """The script of a subject: it plays on a screen, and returns a verdict.

    If faults are planted, it returns one verdict from before them and one from after them.
    """

    def __call__(self, screen: Screen, *, stays: bool, selftest: bool) -> list[Verdict]:
        """Play the script. With `stays`, go on until Ctrl-C. With `selftest`, plant faults."""


_SUBJECTS: dict[str, tuple[Show, dict[str, str]]] = {
    "groups": (show_groups, OF_GROUPS),
    "tasks": (show_tasks, OF_TASKS),
    "keys": (show_keys, OF_KEYS),
    "cron": (show_cron, OF_CRON),
}


def demo(
    subject: Literal["groups", "tasks", "keys", "cron", "shards"] = "groups",
    /,
    *,
    json: bool = False,
    stops: Annotated[bool, Parameter(name="--exit")] = False,
    selftest: bool = False,
    postgres: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Let processes share real work, disturb them, and let a separate process read the traces of their work.

    Parameters
    ----------
    subject
        The part to show. groups: members share partitions. tasks: workers run tasks. keys: the tasks of a key run in
        order. cron: schedules fire on several nodes. shards: one database becomes three.
    json
        Print only one JSON object, on the last line.
    stops
        End after the verification. Without this option, on a terminal, the workers go on until Ctrl-C.
    selftest
        Verify the traces, plant faults in them, and verify them again; the verifier must find the faults.
    postgres
        Of shards: use two servers of PostgreSQL, made for this run alone. Slots go to the second server, come back, and
        go to the second server again. The first server crashes meanwhile. PostgreSQL must be installed on this machine.
    """
    if postgres and subject != "shards":
        raise InvalidInput("subject of --postgres", subject, "shards", "Write: apportion demo shards --postgres")
    show, meanings = _of_shards(has_servers=postgres) if subject == "shards" else _SUBJECTS[subject]
    with ended_by_signals(), Screen(is_quiet=json) as screen:
        found = show(screen, stays=not stops and not json and sys.stdout.isatty(), selftest=selftest)
    passed = all(check["passed"] for check in found[-1].values())
    _tell(found, meanings, passed=passed, as_json=json)
    return 0 if passed else 1


def _of_shards(*, has_servers: bool) -> tuple[Show, dict[str, str]]:
    """Return the show of shards on files or on servers; `MissingExtra` without SQLAlchemy."""
    from apportion.console.demo.shards.show import MEANINGS, show_servers, show_shards  # noqa: PLC0415 - an extra

    return show_servers if has_servers else show_shards, MEANINGS


def _tell(found: list[Verdict], meanings: dict[str, str], *, passed: bool, as_json: bool) -> None:
    *before, last = found
    if as_json:
        unplanted = {"before_plants": before[0]} if before else {}
        print(dumps({"format_version": 1, "passed": passed, "checks": last} | unplanted))
        return
    for each in before:
        good = sum(check["passed"] for check in each.values())
        print(f"\nBefore the faults were planted, {good} of {len(each)} checks passed.")
    print("\nA separate process has read the traces of the work, and nothing else:")
    for name, check in last.items():
        first, *more = wrap(meanings[name], max(_NARROWEST, get_terminal_size().columns - _MEANING_BEGINS))
        print(f"  {'ok  ' if check['passed'] else 'FAIL'}  {name:22}{check['value']!s:>6}   {first}")
        for line in more:
            print(f"{'':{_MEANING_BEGINS}}{line}")
