"""Server of the demonstration of shards: a throw-away server of PostgreSQL, with all its files in one folder.

Promises: it listens on no port; only its user and root reach its socket. It stops at the end of its block, however the
block ends. It has a process group of its own, so Ctrl-C in a terminal does not stop it before the verification.
Refuses: root as its user, as PostgreSQL does. If root starts the demonstration, the server runs as `postgres`.
"""

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from apportion.console.demo.shards.servers import PORT, USER, ServerConnection
from apportion.errors import InvalidInput, StoreUnavailable
from apportion.stores.postgres.driver import psycopg

_PATIENCE_SECONDS, _LOOK_SECONDS, _MOST_TOLD = 60.0, 0.02, 500
_MOST_SOCKET_BYTES, _MOST_NAME_BYTES = 107, len(f"/one/.s.PGSQL.{PORT}")
_ROOT_RUNS_AS = "postgres"
_HOMES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")

# `wal_retrieve_retry_interval`: after a crash of the source, the workers of a subscription start anew at once. With the
# default, they would start up to five seconds later.
_SETTINGS = {
    "listen_addresses": "",
    "wal_level": "logical",
    "max_slot_wal_keep_size": "1GB",
    "max_worker_processes": "24",
    "max_logical_replication_workers": "12",
    "wal_retrieve_retry_interval": "20ms",
    "shared_buffers": "32MB",
}


class DemoServer:
    """One server. Its folder has the data, the socket and the log."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._folder, self._programs = folder, programs
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Begin to make the files of the server."""
        self._folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(self._folder, _ROOT_RUNS_AS)
        self._run("initdb", f"--username={USER}", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")

    def start(self) -> None:
        """Start the server when its files are made, and wait until it answers."""
        if self._process is not None and self._process.wait(_PATIENCE_SECONDS):
            raise self._failed()
        settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        process = self._run("postgres", "-p", str(PORT), "-k", str(self._folder), *settings)
        ends = time.monotonic() + _PATIENCE_SECONDS
        while not self._answers():
            if process.poll() is not None or time.monotonic() > ends:
                raise self._failed()
            time.sleep(_LOOK_SECONDS)

    def crash(self) -> None:
        """End the server at once. As in a crash, nothing is written any more, and no client is told."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGQUIT)
            process.wait(_PATIENCE_SECONDS)

    def _run(self, program: str, *words: str) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the program of PostgreSQL
                [self._programs / program, "-D", self._folder / "data", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                process_group=0,
                **_user(),
            )
        return self._process

    def _answers(self) -> bool:
        try:
            ServerConnection(host=str(self._folder), dbname="postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _failed(self) -> StoreUnavailable:
        """Return the error of a server that does not start, with the end of its log."""
        said = " ".join(self._log.read_text(errors="replace").split())[-_MOST_TOLD:]
        hint = "Nothing of it is left. If its folder is the reason, set another one: TMPDIR=/tmp"
        return StoreUnavailable(f"server {self._folder.name} of the demonstration", said, hint)


@contextmanager
def running(folder: Path, shards: Sequence[str]) -> Iterator[Mapping[str, DemoServer]]:
    """Run a server for each shard within a block. `InvalidInput`, and nothing is made, if PostgreSQL is absent."""
    programs = _programs()
    _check_sockets(folder)
    servers = {shard: DemoServer(folder / shard, programs) for shard in shards}
    folder.mkdir()
    if os.geteuid() == 0:
        for each in (folder.parent, folder):
            each.chmod(0o711)  # the user of the servers must pass
    with ExitStack() as ends:
        for server in servers.values():
            ends.callback(server.crash)
            server.begin()
        for server in servers.values():
            server.start()
        yield servers


def _check_sockets(folder: Path) -> None:
    """Refuse a folder with too long a name for the sockets in it."""
    size = len(os.fsencode(folder)) + _MOST_NAME_BYTES
    if size > _MOST_SOCKET_BYTES:
        expected = f"one of at most {_MOST_SOCKET_BYTES - _MOST_NAME_BYTES} bytes"
        raise InvalidInput("temporary folder", str(folder), expected, "Set another one, for example: TMPDIR=/tmp")


def _user() -> dict[str, Any]:
    """Return the options that start a process as another user than root."""
    return {"user": _ROOT_RUNS_AS, "group": _ROOT_RUNS_AS, "extra_groups": []} if os.geteuid() == 0 else {}


def _programs() -> Path:
    """Return the folder with the programs of PostgreSQL: that on the PATH, else the newest one."""
    on_path = shutil.which("initdb")
    found = [each for home in _HOMES for each in Path("/").glob(f"{home[1:]}/initdb")]
    found.sort(key=lambda each: [int(part) for part in "".join(c if c.isdigit() else " " for c in str(each)).split()])
    if not on_path and not found:
        hint = "Install the package postgresql, for example: apt install postgresql"
        raise InvalidInput("initdb", "absent", "one on the PATH, in /usr/lib/postgresql or in /usr/pgsql-*", hint)
    if os.geteuid() == 0 and _ROOT_RUNS_AS not in {each.pw_name for each in pwd.getpwall()}:
        hint = f"Make the user: useradd --system {_ROOT_RUNS_AS}. Or run this command as another user than root."
        raise InvalidInput(f"user {_ROOT_RUNS_AS}", "absent", "one that can run PostgreSQL for root", hint)
    return Path(on_path or found[-1]).resolve().parent
