"""Verdict: the checks of a demonstration, by a separate process that reads only the traces of the work."""

import subprocess
import sys
from collections.abc import Callable
from json import loads
from typing import Any, TypeAlias

from apportion.errors import InvariantBroken

Verdict: TypeAlias = dict[str, dict[str, Any]]


def judged(subject: str, *files: str, plant: Callable[[], None] | None = None) -> list[Verdict]:
    """Return the verdict of another process on the traces, and, with `plant`, a second one after the planted faults."""
    verdicts = [verified(subject, *files)]
    if plant is not None:
        plant()
        verdicts.append(verified(subject, *files))
    return verdicts


def verified(subject: str, *files: str) -> Verdict:
    """Let another process read the traces of a demonstration; return its verdict."""
    command = [sys.executable, "-m", f"apportion.console.demo.{subject}.verify", *files]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - of ours
    if done.returncode:
        raise InvariantBroken(f"the verifier failed: {done.stderr.strip()[-500:]}")
    verdict: Verdict = loads(done.stdout)
    return verdict
