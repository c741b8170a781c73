"""The pieces of the figures of tasks: a contest counts each run, and the log of a recovery knows what was open."""

import pytest

from bench.figures.tasks_recovery import Log
from bench.goal import at_least
from bench.queues.contest import compared, drained


class _Queue:
    """A queue in memory that runs some tasks as often as it is told."""

    tasks = 3

    def __init__(self, name, *, extra=()):
        self.name, self.handled, self._extra, self._filled = name, [], list(extra), 0

    async def fill(self):
        self._filled += 1

    async def drain(self):
        if self._filled:
            self.handled += [*range(self.tasks), *self._extra]
            self._filled -= 1


def test_a_contest_gives_the_time_per_task_of_each_round():
    times = drained([_Queue("ours"), _Queue("by hand")], rounds=4)
    assert {"ours": 4, "by hand": 4} == {name: len(each) for name, each in times.items()}


def test_a_queue_that_runs_a_task_twice_is_no_contender():
    with pytest.raises(RuntimeError, match="by hand has not run each task once"):
        drained([_Queue("ours"), _Queue("by hand", extra=[1])], rounds=2)


@pytest.mark.parametrize(("ours_ns", "verdict"), [(2_000, "met"), (2_001, "MISSED")])
def test_a_speed_is_judged_against_that_of_another(ours_ns, verdict):
    assert verdict == compared("drain", [ours_ns] * 3, "by hand", [1_000] * 3, at_least(0.5, "x")).verdict


def test_the_log_of_a_recovery_knows_open_runs_and_their_next_beginning(tmp_path):
    path = tmp_path / "log"
    path.write_text("began a 1 7 1.0\nbegan b 1 7 1.5\nended a 1 7 2.0\nbegan c 1 8 2.0\nbegan b 3 8 4.5\nbegan c")
    log = Log(path)
    log.look()
    assert [("b", 1)] == log.open_runs(7)
    assert (4.5, None) == (log.begun_again(("b", 1)), log.begun_again(("c", 1)))
