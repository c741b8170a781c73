"""A figure measured by another process: the reference beside the twin, or a peer that needs a newer Python.

Each such process has its own textbook ring in its own interleaved run, so ratios never compare two interpreters.
"""

import json
import subprocess
import sys
from pathlib import Path

from bench.row import Row

ROOT = Path(__file__).parents[1]


def rows_of(figure: str, *options: str, python: str = sys.executable) -> list[Row]:
    """Return the rows of a figure as another `python -m bench` measures them."""
    command = [python, "-m", "bench", "--only", figure, "--json", *options]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} exits with {process.returncode}:\n{process.stderr[-2000:]}")
    return [Row(**row) for row in json.loads(process.stdout)["rows"]]
