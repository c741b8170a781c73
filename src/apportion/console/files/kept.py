"""Kept files: the last tables (or assignments) that a file held, in a folder beside it, so that a change can be undone.

The folder of `table.json` is `table.json.kept`. Each file in it is one saved table, as it was. Its name tells its
number, the number of the one before it, and when it came: `0002-after-0001-20261124T001503Z.json`. The kept file with
the same bytes as `table.json` is the current one. So one rename, to `table.json`, completes a change or an undo.

Promises: both tables of a change are kept before the file is replaced. A writer that dies at any moment leaves the old
table or the new one, and each kept file whole. No two kept files are equal, and the one before the current one
is the last to be removed.
Refuses: to lock. A caller that writes holds the lock of `OutputFile.alone`.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from apportion.console.files.io import unusable
from apportion.console.files.output_file import OutputFile, replace_file, sync_folder
from apportion.errors import InvalidInput

MOST = 10
"""Kept files beside the current one."""

_NAME = re.compile(r"(\d{4,9})-after-(\d{4,9})-(\d{8}T\d{6}Z)\.json")
_TIME = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class KeptFile:
    """One kept file. `before` is the number of the file before it, 0 if there is none."""

    number: int
    before: int
    since: datetime
    path: Path


class KeptFiles:
    """The kept files of one file, the oldest first."""

    folder: Path

    def __init__(self, file: Path) -> None:
        self._file, self.folder = Path(os.path.realpath(file)), kept_folder(file)
        self.files: list[KeptFile] = sorted(self._found())

    def at(self, number: int) -> KeptFile | None:
        """Return the kept file of a number."""
        return next((each for each in self.files if each.number == number), None)

    def equal_to(self, data: bytes) -> KeptFile | None:
        """Return the kept file with exactly these bytes."""
        same = (each for each in reversed(self.files) if each.path.stat().st_size == len(data))
        return next((each for each in same if each.path.read_bytes() == data), None)

    def current(self, data: bytes) -> KeptFile:
        """Return the kept file of the current bytes. If no kept file has these bytes, keep them now, as the newest."""
        last = self.files[-1].number if self.files else 0
        return self.equal_to(data) or self._add(data, before=last, since=self._file.stat().st_mtime)

    def keep(self, old: bytes, new: bytes) -> None:
        """Keep both sides of a change that is about to happen."""
        current, there = self.current(old), self.equal_to(new)
        if there is None or there.before != current.number:
            self._add(new, before=current.number, since=datetime.now(UTC).timestamp())
            if there is not None:
                there.path.unlink()
                self.files.remove(there)

    def prune(self, current: bytes) -> None:
        """Remove the oldest files, and the remains of writers that were killed.

        The current file and `MOST` others stay. The file before the current one goes last. A file that cannot be
        removed stays for the next time.
        """
        for path in self.folder.glob(".*-after-*.json.*"):
            with suppress(OSError):
                path.unlink()
        now = self.equal_to(current)
        others = [each for each in self.files if each != now]
        others.sort(key=lambda each: (now is not None and each.number == now.before, each.number))
        for each in others[:-MOST]:
            with suppress(OSError):
                each.path.unlink()
                self.files.remove(each)

    def _found(self) -> Iterator[KeptFile]:
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if named := _NAME.fullmatch(path.name):
                with suppress(ValueError):  # digits that are no time: not a name of ours
                    since = datetime.strptime(named[3], _TIME).replace(tzinfo=UTC)
                    yield KeptFile(number=int(named[1]), before=int(named[2]), since=since, path=path)

    def _add(self, data: bytes, *, before: int, since: float) -> KeptFile:
        mode = stat.S_IMODE(self._file.stat().st_mode)
        if not self.folder.exists():
            self.folder.mkdir()
            self.folder.chmod(mode | 0o700 | (mode & 0o444) >> 2)
            sync_folder(self.folder.parent)
        number = self.files[-1].number + 1 if self.files else 1
        moment = datetime.fromtimestamp(since, UTC).replace(microsecond=0)
        path = self.folder / f"{number:04d}-after-{before:04d}-{moment:{_TIME}}.json"
        replace_file(path, data, mode=mode)
        added = KeptFile(number=number, before=before, since=moment, path=path)
        self.files.append(added)
        return added


def replace_and_keep(output: OutputFile, data: bytes, held: bytes | None) -> None:
    """Write a file, and keep the value that it `held` until now beside the new one."""
    if held is None or held == data or output.is_stream:
        output.write(data)
        return
    output.check()
    with _usable(output.path):
        kept = KeptFiles(output.path)
        kept.keep(held, data)
    output.write(data)
    kept.prune(data)


def kept_files(file: Path) -> KeptFiles:
    """Return the kept files of a file."""
    with _usable(file):
        return KeptFiles(file)


def kept_before(file: OutputFile, data: bytes) -> KeptFile:
    """Return the kept file before the current bytes; keep these too if no kept file has them."""
    kept = kept_files(file.path)
    with _usable(file.path):
        found = kept.at(kept.current(data).before) if kept.files else None
    if found is None:
        hint = (
            "Nothing was changed. Each apply keeps the file before it, up to ten. List them with: apportion table log"
        )
        raise InvalidInput(file.option, str(file.path), "a file with a kept earlier version", hint)
    return found


def kept_folder(file: Path) -> Path:
    """Return the folder of the kept files of a file."""
    target = Path(os.path.realpath(file)) if file.is_symlink() else file
    return target.parent / f"{target.name}.kept"  # "." has no name


@contextmanager
def _usable(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unusable("folder of kept files", kept_folder(file), error) from error
