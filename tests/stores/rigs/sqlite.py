"""The rig of SQLite: a file on a small disk of its own where we may mount one, else in an ordinary directory.

There is no server: killing is done to members, which the suite starts itself.
"""

import os
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path

from apportion.sim.conformance.rig import Impossible, Rig
from apportion.stores.sqlite import ledger, link
from apportion.stores.sqlite.connection import Connection, open_sqlite
from tests.stores.rigs import wall

DISK_BYTES = 256 * 2**20
_CHUNK = b"\0" * 65_536


class SqliteRig(Rig):
    """One file in a temporary directory."""

    name = "sqlite"

    def __init__(self, *, own_disk: bool = True) -> None:
        self._root = folder = Path(tempfile.mkdtemp(prefix="sqlite-rig-"))
        self._image = folder / "disk.img"
        self._folder = folder / "disk"
        self._folder.mkdir()
        self._is_mounted = own_disk and os.geteuid() == 0 and _mounted(self._image, self._folder)
        self._path = self._folder / "store.db"
        self._copy = folder / "copy.db"
        self._filler = self._folder / "filler"

    def url(self, namespace: str, *, address: tuple[str, int] | None = None) -> str:
        if address is not None:
            raise _no_server()
        return f"sqlite:///{self._path}?namespace={namespace}"

    def address(self) -> tuple[str, int]:
        raise _no_server()

    async def kill(self) -> None:
        raise _no_server()

    async def start(self) -> None:
        raise _no_server()

    async def compact(self) -> None:
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            ledger.forget(connection, ledger.state(connection).revision)
            connection.execute("COMMIT")

    async def save(self) -> None:
        with closing(sqlite3.connect(self._path)) as source, closing(sqlite3.connect(self._copy)) as copy:
            source.backup(copy)

    async def restore(self) -> None:
        fresh = self._path.with_name("restored.db")
        shutil.copyfile(self._copy, fresh)
        for end in ("-wal", "-shm"):
            Path(f"{self._path}{end}").unlink(missing_ok=True)
        fresh.replace(self._path)

    async def restore_in_place(self) -> None:
        """Write the copy over the file, as `sqlite3 store.db ".restore copy.db"` does."""
        with closing(sqlite3.connect(self._copy)) as copy, closing(sqlite3.connect(self._path)) as target:
            copy.backup(target)

    async def deny(self) -> None:
        """Let SQLite refuse each write of this process, as to a file that became read-only; root is denied nothing."""
        query_only(on=True)

    async def allow(self) -> None:
        query_only(on=False)

    async def fill(self) -> None:
        if not self._is_mounted:
            raise Impossible("durable", "only a disk of its own can be filled, and mounting one needs root")
        with self._filler.open("ab", buffering=0) as filler:
            for size in (65_536, 4_096, 512):
                _write_until_full(filler.fileno(), _CHUNK[:size])

    async def relieve(self) -> None:
        self._filler.unlink(missing_ok=True)

    async def step_clock(self, seconds: float) -> None:
        wall.step(seconds)

    async def close(self) -> None:
        if self._is_mounted:
            subprocess.run(["umount", "--lazy", self._folder], check=True)
        shutil.rmtree(self._root)


def query_only(*, on: bool) -> None:
    with link.forking:  # the handles may live on another thread
        for opened in list(link.links):
            opened.opener = _opened_to_read if on else open_sqlite
            opened.let_go()


def _opened_to_read(path: Path) -> Connection:
    connection = open_sqlite(path)
    connection.execute("PRAGMA query_only=1")
    return connection


def _no_server() -> Impossible:
    return Impossible("multi_host", "there is no server, and no network to it")


def _mounted(image: Path, folder: Path) -> bool:
    if not all(map(shutil.which, ("mkfs.ext4", "mount", "umount"))):
        return False
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    made = subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=False, capture_output=True)
    if made.returncode == 0:
        made = subprocess.run(["mount", "-o", "loop", image, folder], check=False, capture_output=True)
    if made.returncode != 0:
        image.unlink()
    return made.returncode == 0


def _write_until_full(file: int, chunk: bytes) -> None:
    while True:
        try:
            os.write(file, chunk)
        except OSError:
            return


RIG = SqliteRig
