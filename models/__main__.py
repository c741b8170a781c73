"""`python -m models`: explore the hand-over within bounds; `--full` within those of `make soak`.

Exit status: 0, or 1 when a promise was broken or a state is stuck; then the shortest story of it is printed.
"""

import resource
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Container, Sequence
from typing import NamedTuple

from models.explorer import Explorer, Report
from models.lane_parts import LaneBounds
from models.lanes import Lanes
from models.move_world import MoveBounds
from models.reshard import Reshard
from models.step import State as AnyState
from models.story import story
from models.tasks import TaskBounds, Tasks
from models.terms import Terms
from models.world import Bounds, State, World


class Setting(NamedTuple):
    """One exploration."""

    bounds: Bounds
    deaths: bool = False
    guarded: bool = True


SMALL = (Setting(Bounds(3, 0, 0)), Setting(Bounds(1, 1, 1), deaths=True), Setting(Bounds(0, 3, 0), deaths=True))
FULL = (Setting(Bounds(3, 1, 1)), Setting(Bounds(2, 1, 1), deaths=True), Setting(Bounds(0, 4, 0), deaths=True))
SMALL_LIVES, FULL_LIVES = 3, 5
SMALL_TASKS, FULL_TASKS = TaskBounds(2, 2, 1, 0), TaskBounds(2, 2, 1, 1)
SMALL_MOVES = (
    MoveBounds(writes=1, publications=0, movers=0, losses=0, aborts=1, retreats=1, aways=1),
    MoveBounds(writes=2, publications=1, movers=1, losses=0, aborts=0, retreats=0, aways=0),
    MoveBounds(writes=1, publications=0, movers=1, losses=0, aborts=1, retreats=1, aways=0),
    MoveBounds(writes=2, publications=0, movers=1, losses=0, aborts=1, retreats=0, aways=0, reverses=1),
)
FULL_MOVES = (MoveBounds(), MoveBounds(writes=1))
SMALL_LANES = (
    LaneBounds(group_cuts=1, task_cuts=1, losses=1),
    LaneBounds(flips=1, group_cuts=1),
    LaneBounds(flips=1, task_cuts=1),
    LaneBounds(flips=1, failures=1, restores=1),
    LaneBounds(flips=1, keys=2),
)
FULL_LANES = (
    LaneBounds(flips=1, group_cuts=1, task_cuts=1, losses=1),
    LaneBounds(flips=2, task_cuts=1, failures=1),
    LaneBounds(flips=1, losses=1, failures=1, restores=1),
    LaneBounds(flips=1, task_cuts=1, restores=1),
    LaneBounds(flips=1, task_cuts=1, keys=2),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Explore the requested models; return the exit status."""
    parser = ArgumentParser(
        prog="python -m models", description="Explore every history of the hand-over, within bounds."
    )
    parser.add_argument("--full", action="store_true", help="the bounds of `make soak`: millions of states, minutes")
    parser.add_argument("--bounds", type=_bounds, metavar="FLIPS,ENDS,RESTARTS[,EPOCHS]", help="these bounds alone")
    parser.add_argument("--deaths", action="store_true", help="with --bounds: owners may have died of the partition")
    parser.add_argument("--no-guard", action="store_true", help="with --bounds: what is written to refuses nothing")
    parser.add_argument("--terms", type=int, metavar="LIVES", help="who is the controller, in so many lives, alone")
    parser.add_argument(
        "--lanes", type=_lane_bounds, metavar=",".join(LaneBounds._fields).upper(), help="a lane of keys, alone"
    )
    parser.add_argument(
        "--moves", type=_move_bounds, metavar=",".join(MoveBounds._fields).upper(), help="the move of a slot, alone"
    )
    options = parser.parse_args(arguments)
    settings: tuple[Setting, ...] = FULL if options.full else SMALL
    if options.bounds is not None:
        settings = (Setting(options.bounds, options.deaths, not options.no_guard),)
    elif options.deaths or options.no_guard:
        parser.error("--deaths and --no-guard go with --bounds")
    if options.terms is not None:
        return _explored_terms(options.terms)
    if options.lanes is not None:
        return _explored_lanes(options.lanes)
    if options.moves is not None:
        return _explored_move(options.moves)
    codes = [_explored(each) for each in settings]
    if options.bounds is None:
        codes.append(_explored_terms(FULL_LIVES if options.full else SMALL_LIVES))
        codes.append(_explored_tasks(FULL_TASKS if options.full else SMALL_TASKS))
        codes += map(_explored_lanes, FULL_LANES if options.full else SMALL_LANES)
        codes += map(_explored_move, FULL_MOVES if options.full else SMALL_MOVES)
    return max(codes)


def _bounds(text: str) -> Bounds:
    return Bounds(*_numbers(text, (3, 4), "three or four numbers, for example 3,1,1 or 3,1,1,12"))


def _lane_bounds(text: str) -> LaneBounds:
    return LaneBounds(*_numbers(text, range(1, 8), "one to seven numbers, for example 1,1 or 1,0,1,0,0,1,2"))


def _move_bounds(text: str) -> MoveBounds:
    return MoveBounds(*_numbers(text, range(1, 9), "one to eight numbers, for example 1,0,1,0,1,0,0"))


def _numbers(text: str, counts: Container[int], expected: str) -> list[int]:
    numbers = [int(each) for each in text.split(",") if each.isdigit()]
    if len(numbers) != text.count(",") + 1 or len(numbers) not in counts:
        raise ArgumentTypeError(f"{text!r}: expected {expected}")
    return numbers


def _explored(setting: Setting) -> int:
    world = World(setting.bounds, deaths=setting.deaths, guarded=setting.guarded)
    report = Explorer(world).run()
    print(_line(setting, report, is_cut=world.is_cut))
    for line in story(world, report.trace):
        print(line)
    if report.broken:
        print(f"      {report.broken}")
    sys.stdout.flush()
    return 1 if report.broken else 0


def _explored_terms(lives: int) -> int:
    report = Explorer(Terms(lives)).run()
    return _shown(f"terms of {lives} lives; {_found(report)}", report)


def _explored_tasks(bounds: TaskBounds) -> int:
    report = Explorer(Tasks(bounds)).run()
    said = ", ".join(f"{count} {name}" for name, count in zip(bounds._fields, bounds, strict=True))
    return _shown(f"two workers, {said}; {_found(report)}; attempts up to {report.highest}", report)


def _explored_lanes(bounds: LaneBounds) -> int:
    report = Explorer(Lanes(bounds)).run()
    named = zip(bounds._fields, bounds, strict=True)
    said = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in named if count)
    return _shown(f"a lane of keys, {said}; {_found(report)}; epochs up to {report.highest}", report)


def _explored_move(bounds: MoveBounds) -> int:
    report = Explorer(Reshard(bounds)).run()
    said = ", ".join(f"{count} {name}" for name, count in zip(bounds._fields, bounds, strict=True) if count)
    return _shown(f"the move of a slot, {said}; {_found(report)}; tables up to {report.highest}", report)


def _shown(said: str, report: Report[AnyState]) -> int:
    print(said)
    for number, step in enumerate(report.trace, 1):
        print(f"{number:4}  {step.kind}")
    if report.broken:
        print(f"      {report.broken}")
    sys.stdout.flush()
    return 1 if report.broken else 0


def _line(setting: Setting, report: Report[State], *, is_cut: bool) -> str:
    names = ["flips", "lease ends", "restarts", "epochs"]
    said = ", ".join(f"{count} {name}" for name, count in zip(names, setting.bounds, strict=True))
    said += (", deaths" if setting.deaths else "") + ("" if setting.guarded else ", no guard")
    return f"{said}; {_found(report)}; epochs up to {report.highest}" + (", cut there" if is_cut else "")


def _found(report: Report[AnyState]) -> str:
    violations = int(bool(report.broken) and not report.stuck)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    counts = f"{report.states} states, {report.transitions} transitions, depth {report.depth}"
    return f"{counts}; {violations} violations, {report.stuck} stuck; {report.seconds:.1f} s, {memory} MiB"


if __name__ == "__main__":
    sys.exit(main())
