"""Play seeds of a scenario: python -m apportion.sim [--scenario group] SEED, or --seeds A..B.

One seed prints its story. Several seeds print each failure with the command that plays it again, and a summary. Exits
1 when any seed failed.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

from apportion.sim.facts import Began
from apportion.sim.invariants.store import Invariant
from tests.sim.scenarios.scenario import SCENARIOS, STORES, Report, play
from tests.sim.scenarios.shrink import shortest

CANARY_RATIO = 0.01
_NAMES = {each.__name__ for scenario in SCENARIOS.values() for each in scenario.held}


class Canary(Invariant):
    """Fails on one seed in a hundred, to prove that failures are found and reported."""

    def began(self, fact: Began) -> None:
        """Break the promise; the runner adds the canary to the chosen seeds only."""
        self.broken(f"the canary of life {fact.incarnation} sings")


def has_canary(seed: int) -> bool:
    """Return whether a canary is planted in a seed."""
    return Random(f"{seed} canary").random() < CANARY_RATIO


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, print, and return the exit code."""
    options = _parsed(arguments)
    seeds = [options.seed] if options.seeds is None else options.seeds
    reports = (_played(seed, options) for seed in seeds)
    return _one(next(reports), options) if options.seeds is None else _many(reports, options)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m apportion.sim", description="Play seeds of a scenario.")
    parser.add_argument("seed", type=int, nargs="?", default=0, help="one seed; the command prints its story")
    parser.add_argument("--seeds", type=_range, help="A..B: all seeds from A to B, B included")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), default="store", help="the scenario to play")
    parser.add_argument("--store", choices=sorted(STORES), default="memory")
    parser.add_argument("--faults", type=int, help="end all faults after so many")
    parser.add_argument("--only", action="append", choices=sorted(_NAMES), help="hold this invariant")
    parser.add_argument("--canary", action="store_true", help="plant a failure in one seed of a hundred")
    parser.add_argument("--hashes", action="store_true", help="print the trace hash of every seed")
    parser.add_argument("--no-shrink", action="store_true", help="do not look for the shortest failing prefix")
    return parser.parse_args(arguments)


def _range(text: str) -> range:
    first, dots, last = text.partition("..")
    try:
        return range(int(first), int(last if dots else first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no range: write for example 1..1000") from None


def _played(seed: int, options: argparse.Namespace, *, faults: int | None = None, story: bool = False) -> Report:
    held = [each for each in SCENARIOS[options.scenario].held if not options.only or each.__name__ in options.only]
    if options.canary and has_canary(seed):
        held.append(Canary)
    limit = options.faults if faults is None else faults
    return play(seed, scenario=options.scenario, store=options.store, invariants=held, fault_limit=limit, story=story)


def _one(report: Report, options: argparse.Namespace) -> int:
    if report.violations and not options.no_shrink:
        report = shortest(report, lambda faults: _played(report.seed, options, faults=faults))
    limit = report.injected.total() if report.violations else options.faults
    report = _played(report.seed, options, faults=limit, story=True)
    _say("\n".join(report.story))
    _say("")
    _say(f"seed {report.seed}: {report.yields} yields in {report.seconds:.1f} virtual seconds, trace {report.digest}")
    _say(f"faults: {_counted(report.injected)}")
    _say(f"covered: {_counted(report.covered)}")
    _say(f"longest: {_measured(report.figures)}")
    for violation in report.violations:
        _say(f"BROKEN: {violation}")
    return 1 if report.violations else 0


def _many(reports: Iterable[Report], options: argparse.Namespace) -> int:
    injected: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    figures: dict[str, float] = {}
    played = failed = 0
    seconds = 0.0
    for report in reports:
        played += 1
        seconds += report.seconds
        injected += report.injected
        covered += report.covered
        figures |= {name: max(worst, figures.get(name, 0.0)) for name, worst in report.figures.items()}
        if options.hashes:
            _say(f"{report.seed} {report.digest}")
        if report.violations:
            failed += 1
            _say(f"FAILED seed {report.seed}: {report.violations[0]}")
            _say(f"  python -m apportion.sim {report.seed}{_again(options)}")
    _say(f"{played} seeds, {failed} failed; {seconds / 3600:.2f} virtual hours")
    _say(f"faults: {_counted(injected)}")
    _say(f"covered: {_counted(covered)}")
    _say(f"longest: {_measured(figures)}")
    return 1 if failed else 0


def _again(options: argparse.Namespace) -> str:
    """Return the options that change the run of a seed."""
    scenario = "" if options.scenario == "store" else f" --scenario {options.scenario}"
    store = "" if options.store == "memory" else f" --store {options.store}"
    faults = "" if options.faults is None else f" --faults {options.faults}"
    canary = " --canary" if options.canary else ""
    return scenario + store + faults + canary + "".join(f" --only {name}" for name in options.only or ())


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {counts[name]}" for name in sorted(counts)) or "none"


def _measured(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in sorted(figures.items())) or "nothing"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def to_the_end() -> int:
    """Play as the command line says; return the exit code, 1 too when the reader closes the pipe."""
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough; Python must not fail when it closes the closed pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


if __name__ == "__main__":
    raise SystemExit(to_the_end())
