"""Verdict: the checks of a demonstration, by a separate process that reads only the traces of the work."""

import subprocess
import sys
from json import loads
from typing import Any, TypeAlias

from apportion.errors import InvariantBroken

Verdict: TypeAlias = dict[str, dict[str, Any]]


def verified(subject: str, *files: str) -> Verdict:
    """Let another process read the traces of a demonstration; return its verdict."""
    command = [sys.executable, "-m", f"apportion.console.demo.{subject}.verify", *files]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - of ours
    if done.returncode:
        raise InvariantBroken(f"the verifier failed: {done.stderr.strip()[-500:]}")
    verdict: Verdict = loads(done.stdout)
    return verdict
