"""Source: the commit that is built, and a copy of its files."""

import io
import os
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from distributions.refusal import Refusal

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit. `seconds` since 1970 is the date of every file in its distributions."""

    name: str
    seconds: int


def commit() -> Commit:
    """Return the commit that is checked out; refuse a tree that differs from it."""
    if shutil.which("git") is None:
        raise Refusal("git is not installed. A distribution is built from a commit: install git")
    top = _git("rev-parse", "--show-toplevel")
    if top is None or Path(top) != ROOT:
        raise Refusal(f"{ROOT} is no git repository. A distribution is built from a commit: clone the repository")
    if changed := _git("status", "--porcelain"):
        first, count = changed.splitlines()[0][3:], len(changed.splitlines())
        raise Refusal(f"the tree has {count} uncommitted changes, {first} among them. Commit or stash them first")
    name = _git("rev-parse", "HEAD")
    if name is None:
        raise Refusal("the repository has no commit. Commit first")
    return Commit(name=name, seconds=int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or 0))


def export(commit: Commit, folder: Path) -> None:
    """Write the files of a commit to a new folder."""
    packed = subprocess.run(["git", "archive", commit.name], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as file:
        file.extractall(folder, filter="data")


def _git(*words: str) -> str | None:
    """Return what git says, or None when git refuses."""
    english = os.environ | {"LC_ALL": "C"}
    said = subprocess.run(["git", *words], cwd=ROOT, env=english, capture_output=True, text=True, check=False)
    if "dubious ownership" in said.stderr:
        way = f"git config --global --add safe.directory {ROOT}"
        raise Refusal(f"{ROOT} belongs to another user, so git does not read it. If you trust it: {way}")
    return said.stdout.rstrip() if said.returncode == 0 else None
