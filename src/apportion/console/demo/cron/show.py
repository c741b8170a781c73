"""Show of schedules: the script of the demonstration of schedules, and the verdict of a separate process."""

import tempfile
from datetime import timedelta
from functools import partial
from math import inf
from pathlib import Path

from rich.text import Text

from apportion.console.demo.cron.nodes import Nodes
from apportion.console.demo.cron.year import BEGIN, SCHEDULES, WEEKS, ZONES
from apportion.console.demo.screen import Screen, colour_of
from apportion.console.demo.verdict import Verdict, judged

NODES = ("node-1", "node-2", "node-3")
MEANINGS = {
    "missing": "slots of the year without a run",
    "doubled": "runs of a slot beyond the first",
    "refired": "runs of old slots, after the late node had tried to trigger all of them again",
}
_KILLED_WEEK, _STOPPED_WEEK, _WOKEN_WEEK = 10, 20, 45
_WIDTH = 60


def show_cron(screen: Screen, *, stays: bool, selftest: bool) -> list[Verdict]:
    """Let nodes run the schedules of a year, disturb them, and return the verdict on their runs."""
    with tempfile.TemporaryDirectory(prefix="apportion-demo-") as folder:
        nodes = Nodes(Path(folder), lambda seen: _picture(screen, seen))
        try:
            before_replay = _play(nodes, screen)
            if stays:
                _linger(nodes, screen)
        finally:
            nodes.end()
        return judged(
            "cron",
            str(nodes.file),
            str(before_replay),
            plant=partial(_plant, nodes, before_replay) if selftest else None,
        )


def _play(nodes: Nodes, screen: Screen) -> int:
    """Play the year; return the number of the last run before the late node tries old slots."""
    screen.say(f"{len(NODES)} nodes run {len(SCHEDULES)} schedules in {', '.join(ZONES)}, in {nodes.url}.")
    screen.say(f"The clock of the file is stepped through {WEEKS} weeks from {BEGIN:%d %B %Y} on.")
    nodes.keep_schedules(BEGIN)
    nodes.start(*NODES)
    for week in range(1, WEEKS + 1):
        _disturb(nodes, screen, week)
        _pass(nodes, week)
    ran = nodes.runs.ran()
    screen.say(f"{len(ran)} slots have run; node-3 tries to trigger all of them again")
    answers = [nodes.tried("node-3", schedule, slot) for _, schedule, slot in ran]
    screen.say(f"         {answers.count('refused')} of {len(answers)} were refused")
    nodes.until("all tasks are done", lambda: not nodes.runs.left(BEGIN))
    return ran[-1][0]


def _pass(nodes: Nodes, week: int) -> None:
    """Step the clock to the end of a week, and wait until its slots have run."""
    now = BEGIN + timedelta(weeks=week)
    nodes.runs.step_to(now)
    nodes.until(f"all slots of week {week} have run", lambda: not nodes.runs.left(now))


def _disturb(nodes: Nodes, screen: Screen, week: int) -> None:
    if week == _KILLED_WEEK:
        screen.say(f"week {week}: node-2 is killed with SIGKILL")
        nodes.killed("node-2")
    elif week == _STOPPED_WEEK:
        screen.say(f"week {week}: node-3 is stopped with SIGSTOP; node-1 goes on, and a new node-2 joins it")
        nodes.stopped("node-3")
        nodes.start("node-2")
    elif week == _WOKEN_WEEK:
        screen.say(f"week {week}: node-3 wakes up, {_WOKEN_WEEK - _STOPPED_WEEK} weeks late")
        nodes.woken("node-3")


def _picture(screen: Screen, nodes: Nodes) -> None:
    """Show how many slots each node has run."""
    counts, text = nodes.runs.by_node(), Text()
    for name, number in sorted(counts.items()):
        text.append(f"{name} {number:5} ", style=colour_of(name))
        text.append("█" * round(number * _WIDTH / (WEEKS * len(SCHEDULES))) + "\n", style=colour_of(name))
    text.append(f"{sum(counts.values()):12} slots")
    screen.show(text)


def _linger(nodes: Nodes, screen: Screen) -> None:
    screen.say(f"The nodes go on until Ctrl-C. Look: apportion cron ls {nodes.url}")
    try:
        nodes.until("Ctrl-C", lambda: False, patience_seconds=inf)
    except KeyboardInterrupt:
        screen.say("they leave")


def _plant(nodes: Nodes, before_replay: int) -> None:
    """Plant a fault for each check: a slot that has not run, one that ran twice, and one that ran again late."""
    nodes.runs.remove(1)
    nodes.runs.repeat(2, after=1)
    nodes.runs.repeat(2, after=before_replay + 1)
