"""Start-up: what `import apportion`, and a first answer from a ring, add to a bare `python -c pass`.

Each turn is a fresh process. Compiled files are kept in a directory of this run, filled by the first, untimed round: an
installed package has its own, and a shell that forbids writing them would have us measure the compiler.
"""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.clock import excess, race, spread
from bench.row import Row

ROUNDS = 25
BARE = "pass"
PROGRAMS = {
    "import apportion": ("import apportion", 40),
    "first route of a ring": ('from apportion import Ring; Ring(["a"]).route("k")', 80),
}


def rows() -> list[Row]:
    """Start every program in turn, over and over."""
    with TemporaryDirectory() as directory:
        environment = _environment(Path(directory))
        _check(environment)
        programs = {"bare": BARE, **{name: program for name, (program, _) in PROGRAMS.items()}}
        turns = {name: partial(_run, program, environment) for name, program in programs.items()}
        times = race(turns, rounds=ROUNDS)
    bare_ms = spread(times["bare"], calls=1_000_000)
    shown = f"{bare_ms.median:.1f} ms ({bare_ms.least:.1f}..{bare_ms.most:.1f})"
    found = [Row(name="start-up, python -c pass", value=bare_ms.median, shown=shown)]
    return found + [_row(name, times[name], times["bare"], goal_ms=goal_ms) for name, (_, goal_ms) in PROGRAMS.items()]


def _row(name: str, times_ns: list[int], bare_ns: list[int], *, goal_ms: int) -> Row:
    over = excess(times_ns, bare_ns)
    median_ms, least_ms, most_ms = (value / 1_000_000 for value in (over.median, over.least, over.most))
    return Row(
        name=f"start-up over bare python, {name}",
        value=median_ms,
        shown=f"{median_ms:+.1f} ms ({least_ms:+.1f}..{most_ms:+.1f})",
        goal=f"<= {goal_ms} ms",
        met=median_ms <= goal_ms,
    )


def _environment(compiled: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(compiled)}


def _check(environment: dict[str, str]) -> None:
    """Raise if a fresh process does not answer as it must; then its time would mean nothing."""
    answer = _run('from apportion import Ring; print(Ring(["a"]).route("k"))', environment)
    if answer != "a\n":
        raise RuntimeError(f"a fresh process routed to {answer!r}, not to 'a'")


def _run(program: str, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
