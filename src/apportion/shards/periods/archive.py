"""Archive: files with the rows of an old period, each with a checksum, written before the rows leave their shard.

    world.one.event_20250101.copy    the rows, one on each line
    world.one.event_20250101.json    the set, the shard, the table, its columns, the number of rows, and the checksum

Promises: a file has its last name only when it lies on the disk as a whole. A second pass reads it back from the disk,
and compares each byte with the rows of the shard. So a row leaves its shard after it was read from the archive.
Refuses: to write over a whole file of other rows.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from apportion.errors import BadSnapshot, InvalidInput, StoreUnavailable
from apportion.model.codec.parsing import integer, items, pairs, text

_PIECE_BYTES = 2**20
_AGAIN = "Nothing was dropped. Move both files away, and run the same command again."


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveEntry:
    """The facts about an archive file. `is_cleared` means that its rows have left the shard."""

    columns: tuple[str, ...]
    rows: int
    bytes: int
    sha256: str
    is_cleared: bool = False


@dataclass(slots=True)
class ArchiveFile:
    """One file of an archive, and the file with its facts. `kind` ends the name of the first one."""

    folder: Path
    name: str
    kind: str
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The file with the rows."""
        return self.folder / f"{self.name}.{self.kind}"

    @property
    def about(self) -> Path:
        """The file with the facts."""
        return self.folder / f"{self.name}.json"

    def entry(self) -> ArchiveEntry | None:
        """Return the facts of a whole file. None if it was never finished."""
        if not self.about.exists():
            return None
        try:
            with _on_disk(self.about):
                form = pairs(json.loads(self.about.read_bytes()))
        except (ValueError, InvalidInput) as error:
            raise self._damage("not the JSON that apportion writes") from error
        try:
            return ArchiveEntry(
                columns=tuple(map(text, items(form.get("columns")))),
                rows=integer(form.get("rows")),
                bytes=integer(form.get("bytes")),
                sha256=text(form.get("sha256")),
                is_cleared=form.get("cleared") is True,
            )
        except InvalidInput as error:
            raise self._damage("a damaged field") from error

    def finish(self, columns: tuple[str, ...], writer: "ArchiveWriter") -> ArchiveEntry:
        """Give a written file its last name, and write its facts. The facts come last: without them it is not whole."""
        writer.close()
        entry = ArchiveEntry(columns=columns, rows=writer.rows, bytes=writer.bytes, sha256=writer.digest)
        with _on_disk(self.path):
            writer.path.replace(self.path)
        self.note(entry)
        return entry

    def note(self, entry: ArchiveEntry) -> None:
        """Write the facts of a whole file."""
        form = {
            "format_version": 1,
            **self.facts,
            "columns": list(entry.columns),
            "rows": entry.rows,
            "bytes": entry.bytes,
            "sha256": entry.sha256,
            "cleared": entry.is_cleared,
        }
        part = self.about.with_suffix(".json.part")
        with _on_disk(self.about):
            with part.open("wb") as file:
                file.write(json.dumps(form, indent=2, ensure_ascii=False).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.about)
            _sync(self.folder)

    def pieces(self) -> Iterator[bytes]:
        """Yield the file from the disk. `BadSnapshot` at the end if it is not the file that was written."""
        entry = self.entry()
        digest, size = hashlib.sha256(), 0
        with _on_disk(self.path), self.path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # so that the disk answers, and not the cache
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
                size += len(piece)
                yield piece
        if entry is None or (size, digest.hexdigest()) != (entry.bytes, entry.sha256):
            raise self._damage(f"{size} bytes with another checksum")

    def _damage(self, found: str) -> BadSnapshot:
        return BadSnapshot(f"archive {self.path}", found, "the file that apportion has written", _AGAIN)


class ArchiveWriter:
    """Writes a file under the name of an unfinished one, and counts its lines, its bytes and its checksum."""

    def __init__(self, archive: ArchiveFile) -> None:
        self.path: Path = archive.path.with_name(f"{archive.path.name}.part")
        self.rows: int = 0
        self.bytes: int = 0
        self._digest = hashlib.sha256()
        with _on_disk(self.path):
            self._file: BinaryIO = self.path.open("wb")

    @property
    def digest(self) -> str:
        """The checksum so far."""
        return self._digest.hexdigest()

    def take(self, piece: bytes) -> None:
        """Write a piece."""
        with _on_disk(self.path):
            self._file.write(piece)
        self._digest.update(piece)
        self.rows += piece.count(b"\n")
        self.bytes += len(piece)

    def close(self) -> None:
        """Bring the file to the disk."""
        with _on_disk(self.path), self._file as file:
            file.flush()
            os.fsync(file.fileno())


class ArchiveReader:
    """Compares a file with pieces of bytes that come from elsewhere."""

    def __init__(self, archive: ArchiveFile, shard: str) -> None:
        self._archive, self._shard = archive, shard
        self._pieces, self._ahead = archive.pieces(), bytearray()

    def take(self, piece: bytes) -> None:
        """Compare a piece. `BadSnapshot` if the file goes on otherwise."""
        while len(self._ahead) < len(piece):
            more = next(self._pieces, b"")
            if not more:
                break
            self._ahead += more
        if self._ahead[: len(piece)] != piece:
            raise self._other()
        del self._ahead[: len(piece)]

    def end(self) -> None:
        """Raise `BadSnapshot` unless the file is at its end, and has its checksum."""
        if self._ahead or next(self._pieces, b""):
            raise self._other()

    def _other(self) -> BadSnapshot:
        expected = f"the rows of {self._shard}"
        return BadSnapshot(f"archive {self._archive.path}", "a file of other rows", expected, _AGAIN)


def archive_name(*parts: str) -> str:
    """Return the name of an archive file, without characters that a file system may refuse.

    >>> archive_name("world", "one", "event_20250101")
    'world.one.event_20250101'
    """
    return ".".join(quote(part, safe="") for part in parts)


def check_folder(folder: Path) -> Path:
    """Refuse a folder of archives that is not there."""
    if not folder.is_dir():
        raise InvalidInput("archive", f"{folder}", "a folder that exists", "Make it first: mkdir -p DIR")
    return folder


@contextmanager
def _on_disk(path: Path) -> Iterator[None]:
    """Turn an error of the disk into `StoreUnavailable`, which names the file."""
    try:
        yield
    except OSError as error:
        hint = "No row left without its archive. Make room, or let this user write there. Then run the same command."
        raise StoreUnavailable(f"archive {path}", error.strerror or f"{error}", hint) from error


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
