"""Interpreters: every CPython of this machine that users may have, from 3.11 on.

They are found on the PATH and in pyenv. Where the newest is absent, its Debian packages are unpacked into a
folder; that needs root, and installs nothing on the machine.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 14)
# With mounts that end with the process; the first words are the root, the folder in it, and the command.
_ENTER = 'mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; exec chroot "$0" env --chdir="$@"'
_NEXT = Path(__file__).with_name("next-python")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """One interpreter. `python` is its path below `root`, the folder that it takes for the whole file system."""

    python: str
    root: Path = Path("/")
    release: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return "Python {}.{}".format(*self.release)

    def run(
        self,
        *words: str,
        python: str | None = None,
        cwd: Path | None = None,
        seconds: float = 300,
        environment: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run this interpreter, or another `python` below its root, with these arguments."""
        call, folder = [python or self.python, *words], cwd or self.root
        hidden: tuple[str, ...] = ("PYTHON", "VIRTUAL")
        if self.root != Path("/"):
            hidden += ("CI",)  # where CI is set, tests demand the servers of this machine, which are not below the root
            call = ["unshare", "--mount", "sh", "-c", _ENTER, f"{self.root}", self.inside(folder), *call]
        inherited = {name: text for name, text in os.environ.items() if not name.startswith(hidden)}
        return subprocess.run(
            call, cwd=folder, env={**inherited, **(environment or {})}, timeout=seconds,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def inside(self, path: Path) -> str:
        """Return the path of a file as the interpreter sees it."""
        return f"/{path.resolve().relative_to(self.root.resolve())}"


def found(folder: Path) -> list[Interpreter]:
    """Return one interpreter per feature release, oldest first. The files that are fetched go into `folder`."""
    by_release: dict[tuple[int, int], Interpreter] = {}
    for python in _on_this_machine():
        one = _asked(Interpreter(python=python))
        if one is not None and one.release >= OLDEST:
            by_release.setdefault(one.release, one)
    if NEWEST not in by_release and (one := _of_next_release(folder)) is not None:
        by_release.setdefault(one.release, one)
    return [by_release[release] for release in sorted(by_release)]


def _on_this_machine() -> list[str]:
    named = [shutil.which(f"python3.{minor}") for minor in range(OLDEST[1], NEWEST[1] + 3)]
    pyenv = shutil.which("pyenv")
    kept = sorted(map(str, Path(pyenv).resolve().parents[1].glob("versions/3.*/bin/python"))) if pyenv else []
    return [path for path in [*named, *kept] if path is not None]


def _asked(one: Interpreter) -> Interpreter | None:
    """Return the interpreter with its release; None where a shim stands for an absent one, or `venv` is absent."""
    said = one.run("-c", "import sys, venv; print(*sys.version_info[:2])")
    if said.returncode:
        return None
    major, minor = map(int, said.stdout.split())
    return replace(one, release=(major, minor))


def _of_next_release(folder: Path) -> Interpreter | None:
    """Return the interpreter of Debian's next release, or None where it cannot be had."""
    made = subprocess.run([_NEXT, folder / "next"], capture_output=True, text=True, check=False)
    if made.returncode:
        return None
    root, python = made.stdout.split()
    return _asked(Interpreter(python=python, root=Path(root)))
