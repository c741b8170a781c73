"""A mover is killed at a stop point of any course, and one command follows: the catalogs of both shards are as before.

The command is `abort` before the switch, and `clean` after it; `apply` settles a switch before `clean`. The rows are
then whole on one shard. `APPORTION_GROUP_RUNS=500` asks for all points of the courses, and `make test` takes some. A
pause under a fence needs a live mover: the kill matrix has that course, and looks at the catalogs too.
"""

import asyncio
import os
from contextlib import suppress
from datetime import timedelta

import pytest

from apportion.shards import admin
from apportion.shards.admin import carrier
from apportion.shards.mover.stop_points import STEPS
from tests.live.move_courses import COURSES, given_up, is_seldom, paused, stayed, there, there_and_back, there_to_stay
from tests.shards.sample import SET
from tests.shards.server import OWNER, as_role
from tests.shards.test_postgres_native import Pair

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(900)]

IS_LONG = os.environ.get("APPORTION_GROUP_RUNS") == "500"
SLOTS = 4
SOME = {
    there: ["switch.after", "release.before"],
    there_and_back: ["fence.after"],
    there_to_stay: ["forgo.after"],
    given_up: ["drop.after"],
    stayed: ["clean-back.before"],
}
"""The points of `make test`. An abort before the switch has a test among those of native moves."""
COMMANDS = {"switched": ("apply", "clean"), "complete": ("clean",), "cleaned": ("apply",)}
"""The commands that end a move, by its state. `abort` ends all others."""


class Died(Exception):
    """The end of a mover in a test."""


class Commands:
    """The commands of courses. The mover of a command dies at the label `due`, or at a stop that a course asks for."""

    def __init__(self, files, channel):
        self._files, self._channel, self._place = files, channel, "one"
        self._due, self._stops = None, ()
        self._slots = files.owned()[:SLOTS]
        files.fill(self._slots)
        self.was = (files.rows("one"), files.catalogs())

    def reached(self, label):
        """Die at a stop point."""
        if label in self._stops:
            self._due = None if label == self._due else self._due
            raise Died

    def play(self, course, label):
        """Play a course up to a label, and end its move by one command. Return False if the label did not come."""
        self._due = label
        with suppress(Died):
            course(self)
        self._stops = ()
        for move in self._run("status").moves:
            for command in COMMANDS.get(move.state, ("abort",)):
                assert self._run(command).is_whole
        return self._due is None

    def found(self):
        """Return the rows and the catalogs, as `was` has them. One shard has no row."""
        rows = {shard: self._files.rows(shard) for shard in ("one", "two")}
        self._place = max(rows, key=lambda shard: len(rows[shard][0]))
        assert ([[], []] in rows.values(), ()) == (True, self._run("status").moves)
        return rows[self._place], self._files.catalogs()

    def named(self):
        """Name no move: a set has one."""

    def over(self, move, wish="go"):
        """Carry out a move to its end."""
        self.order(move, wish)
        if wish == "go":
            self._run("clean")

    def order(self, _, wish, stop=None, *, is_spared=False):
        """Run the command of a wish. With a stop, its mover dies there, and the course goes on."""
        self._stops = {stop} if is_spared else {stop, self._due}
        try:
            self._carry_out(wish)
        except Died:
            if self._due is None:
                raise

    def _carry_out(self, wish):
        moves = [move.id for move in self._run("status").moves]
        if wish == "back":
            self._run("reverse", moves)
        elif wish in ("abort", "pause"):
            self._run(wish)
        elif moves:
            self._run("apply")
        else:
            target = "two" if self._place == "one" else "one"
            plan = self._run("plan", slots=self._slots, to=target)
            self._run("apply", plan, channel=self._channel, is_reversible=wish == "there")

    def _run(self, command, *words, **options):
        if command == "clean":
            options = {"soak": timedelta(0)}
        return asyncio.run(getattr(admin, command)(self._files.url, SET, *words, **options))


def test_each_stop_point_of_a_move_is_in_a_course():
    of_pins = {"publish", "raise", "own", "unlist", "take-back", "join"}
    assert {*STEPS} - of_pins == {label.partition(".")[0] for labels in COURSES.values() for label in labels}


@pytest.mark.parametrize(("channel", "clusters"), [("native", 2), ("native", 1), ("keys", 2)][: 3 if IS_LONG else 1])
def test_one_command_after_a_kill_leaves_the_catalogs_as_before(servers, tmp_path, monkeypatch, channel, clusters):
    as_role(monkeypatch, OWNER)
    files, missed = Pair([servers[0], servers[clusters - 1]], tmp_path), []
    commands = Commands(files, channel)
    monkeypatch.setattr(carrier, "stop_point", lambda: commands.reached)
    for course, labels in (COURSES if IS_LONG else SOME).items():
        for label in labels if course is not paused else ():
            if not commands.play(course, label):
                missed.append(label)
            assert (course, label, commands.was) == (course, label, commands.found())
    files.drop()
    assert [] == [label for label in missed if not is_seldom([label])]
