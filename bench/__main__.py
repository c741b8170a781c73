"""`python -m bench`: run every figure, or the one of `--only`, and print one table (`--json`: one object).

Exit status: 0, met, missed or not measured; 1 if a figure could not run, a contender failed its check, or there is no
optimised twin to measure and `--reference` was not given.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from time import monotonic
from traceback import print_exc

from bench import figures, implementation, machine
from bench.contender import Contender
from bench.report import Report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the figures that were asked for; return the exit status."""
    parser = ArgumentParser(prog="python -m bench", description="Measure every figure and print it with its goal.")
    parser.add_argument("--only", metavar="NAME", choices=figures.names(), help=", ".join(figures.names()))
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of the table")
    parser.add_argument("--reference", action="store_true", help="measure the reference in Python, not the native twin")
    options = parser.parse_args(arguments)
    try:
        chosen = implementation.choose(reference=options.reference)
    except implementation.Refused as refused:
        print(f"bench: {refused}", file=sys.stderr)
        return 1
    report = _run([options.only] if options.only else figures.names(), chosen, is_shown=not options.json)
    print(report.as_json() if options.json else report.table())
    return 1 if report.failures else 0


def _run(names: Sequence[str], chosen: str, *, is_shown: bool) -> Report:
    others_cpus, start = machine.watch_others(), monotonic()
    report = Report({"implementation": chosen, **machine.described()})
    _attempt(report, "contenders", partial(_check_contenders, report))
    if is_shown:
        print(report.heading(), end="\n\n", flush=True)
    for name in names:
        began = monotonic()
        print(f"measuring {name} ...", end="", file=sys.stderr, flush=True)
        _attempt(report, name, partial(_measure, report, name))
        print(f" {monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    report.seconds, report.others_cpus = monotonic() - start, others_cpus()
    return report


def _attempt(report: Report, name: str, step: Callable[[], object]) -> None:
    try:
        step()
    except Exception as error:  # noqa: BLE001 - one figure that cannot run, for whatever reason, must not hide the others
        print_exc()
        report.failures[name] = f"{type(error).__name__}: {error}"


def _check_contenders(report: Report) -> None:
    """Check each contender; imported here, so that a peer that cannot be imported fails only what needs it."""
    for room in ("bench.ours", "bench.peers"):
        found = (value for value in vars(import_module(room)).values() if isinstance(value, Contender))
        for contender in found:
            _check(report, contender)


def _check(report: Report, contender: Contender) -> None:
    if contender.absent:
        report.contenders[contender.name] = f"not here: {contender.absent}"
        return
    report.contenders[contender.name] = f"{contender.version}, NOT SANE"
    _attempt(report, f"contender {contender.name}", contender.check)
    if f"contender {contender.name}" not in report.failures:
        kept = "as documented" if contender.documented else "sane"
        report.contenders[contender.name] = f"{contender.version}, {kept} on 1 000 keys"


def _measure(report: Report, name: str) -> None:
    """Measure a figure in a process of its own: what another left in memory would slow it."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as apart:
        report.rows += apart.submit(figures.measured, name).result()


if __name__ == "__main__":
    sys.exit(main())
