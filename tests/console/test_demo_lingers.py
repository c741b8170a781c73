"""Without --exit, a demonstration goes on until Ctrl-C, however long that takes."""

from itertools import count
from types import SimpleNamespace

import pytest

from apportion.console.demo import fleet as fleets
from apportion.console.demo.cron import nodes as nodes_module
from apportion.console.demo.cron import show as cron
from apportion.console.demo.groups import crew as crews
from apportion.console.demo.groups import show as groups
from apportion.console.demo.keys import show as keys
from apportion.console.demo.screen import Screen
from apportion.console.demo.tasks import show as tasks


def ignored(_):
    """Look at nothing."""


@pytest.mark.parametrize(
    ("show", "home", "begin"),
    [
        (groups, crews, lambda folder: crews.Crew(folder, 1, ignored)),
        (tasks, fleets, lambda folder: fleets.Fleet(folder, "tasks", ignored)),
        (keys, fleets, lambda folder: fleets.Fleet(folder, "keys", ignored)),
        (cron, nodes_module, lambda folder: nodes_module.Nodes(folder, ignored)),
    ],
    ids=["groups", "tasks", "keys", "cron"],
)
def test_a_demonstration_goes_on_for_hours_until_ctrl_c(monkeypatch, tmp_path, show, home, begin):
    hours, sleeps = count(step=3_600), count()

    def _sleep(_):
        if next(sleeps) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(home, "time", SimpleNamespace(monotonic=lambda: next(hours), sleep=_sleep))
    said = []
    screen = Screen(is_quiet=True)
    monkeypatch.setattr(screen, "say", said.append)
    show._linger(begin(tmp_path), screen)
    assert "they leave" == said[-1]
