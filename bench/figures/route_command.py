"""`apportion route` over a file of a million keys, on 100 nodes: the whole process, from its start, output thrown away.

The ring, and slots, which is what the command takes by default.
"""

import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from apportion import Ring
from bench.clock import race, spread
from bench.contender import NotSane
from bench.fleet import contiguous_keys, node_names
from bench.goal import at_most
from bench.row import Row, native_row

KEYS = 1_000_000
NODES = 100
ROUNDS = 5
GOAL = at_most(1, "s")
PLACEMENTS = ("ring", "slots")
COMMAND = [sys.executable, "-c", "from apportion.console.main import main; main()", "route"]


def rows() -> list[Row]:
    """Run the command over and over."""
    keys = contiguous_keys(KEYS)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "keys.txt"
        path.write_text("\n".join(keys[:1000]) + "\n", encoding="utf-8")
        _check(keys[:1000], path)
        path.write_text("\n".join(keys) + "\n", encoding="utf-8")
        times = race({name: partial(_run, _command(name, path)) for name in PLACEMENTS}, rounds=ROUNDS)
    found = []
    for name, times_ns in times.items():
        run_s = spread(times_ns, calls=1_000_000_000)
        row = f"apportion route --placement {name}, 1 M keys from a file"
        found.append(native_row(row, run_s.median, run_s.shown("s", digits=2), GOAL))
    return found


def _command(placement: str, keys: Path) -> list[str]:
    return [*COMMAND, "--placement", placement, "--nodes", ",".join(node_names(NODES)), "--keys", str(keys)]


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _check(keys: list[str], path: Path) -> None:
    """Raise `NotSane` if the command prints other nodes than the ring names."""
    printed = subprocess.run(_command("ring", path), check=True, stdout=subprocess.PIPE, text=True).stdout
    routed = zip(keys, Ring(node_names(NODES)).route_many(keys), strict=True)
    if printed != "".join(f"{key}\t{node}\n" for key, node in routed):
        raise NotSane("the command prints other nodes than the ring names")
