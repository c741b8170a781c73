"""Tree: a private copy of the files of the repository, in which tests run and files may be changed.

Promises: the working tree is only read. A run that hangs or fills the memory is ended, with all processes it started.
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# All tests of a few seconds at most. The zoo is slow, and hunts bugs of its own; seeds by the hundred take minutes.
_MINUTES = "many_seeds or thousand_seeds or shipped_sqlite_store"
QUICK = ("-m", "not live and not soak", "-k", f"not ({_MINUTES})", "--ignore=tests/sim/test_zoo.py")
MOST_BYTES = 8 << 30
ENDED = -1_000  # in place of an exit code: the run took too long, and was ended


class Tree:
    """One copy of what git knows, without the native twin: what is changed in Python has its effect."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))  # etcd maps a larger file
        shutil.rmtree(folder, ignore_errors=True)
        command = ["git", "ls-files", "-co", "--exclude-standard"]
        listed = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)
        for name in listed.stdout.splitlines():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)

    def pytest(
        self, *arguments: str, seconds: float | None = None, is_kept: bool = False, **more: str
    ) -> tuple[int, str]:
        """Run pytest in the copy; return its exit code (or that of a run that was ended) and what it printed."""
        variables = {"APPORTION_NATIVE": "0", "HYPOTHESIS_PROFILE": "unshrunk", **more}
        variables["PYTHONPATH"] = f"{self.folder / 'src'}{os.pathsep}{self.folder}"
        variables |= {} if is_kept else {"PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", *arguments]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            return self._said(process, seconds)
        finally:
            _end(process)

    @staticmethod
    def _said(process: subprocess.Popen, seconds: float | None) -> tuple[int, str]:
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return ENDED, ""
        return process.returncode, said


def _end(process: subprocess.Popen) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
