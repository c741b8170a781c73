"""The rig of PostgreSQL: a server of its own, on a private port, with its files in a temporary directory.

The data stand on a small file system in memory where one can be mounted, so that it can be filled; the log of
transactions stands beside, since a server that cannot write it stops altogether. The server's clock is libfaketime's.
A *plain* server, for figures, has all its files on the disk, the clock of the machine, and a log in usual pieces.
"""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg

from apportion.sim.conformance.rig import Impossible, Rig
from apportion.stores import connect
from apportion.stores.catalog import connect_tasks

SECRET = "cAnAry@s:e/c r%e't\"\\t"
USER, DATABASE = "member", "store"
_ROOM_BYTES = 768 << 20
_PATIENCE_SECONDS = 60.0
_FAKE_TIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
AS_POSTGRES = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


def programs() -> Path:
    """Where PostgreSQL's programs are; the newest, if there are several."""
    on_path = shutil.which("initdb")
    found = [*([on_path] if on_path else []), *sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))]
    if not found:
        raise FileNotFoundError("initdb: install PostgreSQL")
    return Path(found[-1]).resolve().parent


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class PostgresRig(Rig):
    """One server for all cases. `settings` are lines of its configuration."""

    name = "postgresql"

    def __init__(self, *, settings=(), is_plain=False):
        programs()  # where there are none, nothing is made
        self._is_plain = is_plain
        self.folder = Path(tempfile.mkdtemp(prefix="apportion-postgres-"))
        self.port = free_port()
        self.server = None
        self._handles = 0
        self.data, self.log = self.folder / "data", self.folder / "wal"
        self._clock = self.folder / "clock"
        self._clock.write_text("+0s\n")
        self.data.mkdir()
        self._mounted = self._mount()
        self._give(self.folder, self.data, self._clock)
        try:
            self._make(settings)
        except BaseException:
            self.stop()
            raise

    def url(self, namespace, *, address=None, user=USER, password=SECRET, database=DATABASE, options=""):
        host, port = address or self.address()
        return f"postgresql://{user}:{quote(password, safe='')}@{host}:{port}/{database}?namespace={namespace}{options}"

    def address(self):
        return ("127.0.0.1", self.port)

    async def connect(self, namespace, *, address=None, clock=None):
        """Every second handle has connections of its own, as one of another process has."""
        return await connect(self._next_url(namespace, address), clock=clock)

    async def connect_tasks(self, namespace, *, address=None):
        return await connect_tasks(self._next_url(namespace, address))

    def _next_url(self, namespace, address):
        self._handles += 1
        options = "&application_name=other" if self._handles % 2 else ""
        return self.url(namespace, address=address, options=options)

    def sql(self, statement, *, user="postgres", database=DATABASE):
        """Run one statement as an administrator; return its rows."""
        host, port = self.address()
        target = {"host": host, "port": port, "user": user, "password": SECRET, "dbname": database}
        with psycopg.connect(**target, autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    async def kill(self):
        if self.server.poll() is not None:
            return
        children = [int(pid) for pid in self._children().split()]
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        ends = time.monotonic() + _PATIENCE_SECONDS
        while any(map(_alive, children)):  # until then one may still take a request
            assert time.monotonic() < ends, "a process of the server survives SIGKILL"
            await asyncio.sleep(0.001)

    async def start(self):
        self.launch()

    async def compact(self):
        self.sql("SELECT apportion.compact(9223372036854775807)")

    async def save(self):
        self.halt()
        for place in (self.data, self.log):
            shutil.rmtree(_kept(place), ignore_errors=True)
            subprocess.run(["cp", "-a", place, _kept(place)], check=True)
        self.launch()

    async def restore(self):
        await self.kill()
        for place in (self.data, self.log):
            for each in place.iterdir():
                shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
            subprocess.run(["cp", "-a", f"{_kept(place)}/.", place], check=True)
        self.launch()

    async def restore_in_place(self):
        await self.restore()  # the copy of the files keeps the system's identifier and its timeline

    async def deny(self):
        self.sql(f"ALTER ROLE {USER} PASSWORD 'another'")
        self.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{USER}'")

    async def allow(self):
        self.sql(f"ALTER ROLE {USER} PASSWORD {psycopg.sql.quote(SECRET)}")

    async def fill(self):
        if not self._mounted:
            raise Impossible("durable", "only root can mount a file system to be filled")
        size, more = 0, _ROOM_BYTES
        with (self.data / "filler").open("wb") as filler:
            while more > 4096:  # the server takes some of the room meanwhile
                try:
                    os.posix_fallocate(filler.fileno(), size, more)
                    size += more
                except OSError:
                    more //= 2
        assert size, "nothing could be filled"

    async def relieve(self):
        (self.data / "filler").unlink()

    async def step_clock(self, seconds):
        if _FAKE_TIME is None or self._is_plain:
            raise Impossible("durable", "libfaketime is not installed")
        self._clock.write_text(f"{seconds:+f}s\n")
        ends = time.monotonic() + _PATIENCE_SECONDS
        while abs(self.sql("SELECT extract(epoch FROM clock_timestamp())")[0][0] - int(time.time() + seconds)) > 3:
            assert time.monotonic() < ends, "the server's clock does not step"
            time.sleep(0.05)

    async def close(self):
        self.stop()

    def launch(self):
        """Start the server, as often as needed while what is left of an earlier one goes away."""
        ends = time.monotonic() + _PATIENCE_SECONDS
        while True:
            if self.server is None or self.server.poll() is not None:
                self.server = self._run()
            asking = self._command("pg_isready", "-q", "-h", "127.0.0.1", "-p", self.port)
            if subprocess.run(asking, check=False).returncode == 0:
                return
            assert time.monotonic() < ends, (self.folder / "server.log").read_text()[-2000:]
            time.sleep(0.02)

    def stop(self):
        """Stop the server by its process id and remove its files."""
        if self.server is not None and self.server.poll() is None:
            self.halt()
        if self._mounted:
            subprocess.run(["umount", "-l", self.data], check=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _make(self, settings):
        secret = self.folder / "secret"
        secret.write_text(SECRET)
        self._give(secret)
        segments = f"--wal-segsize={16 if self._is_plain else 1}"
        arguments = ("--auth=scram-sha-256", "--username=postgres", segments, "--encoding=UTF8", "--no-sync")
        subprocess.run(
            self._command("initdb", "-D", self.data, "-X", self.log, f"--pwfile={secret}", "--locale=C", *arguments),
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            **AS_POSTGRES,
        )
        lines = ["listen_addresses = '127.0.0.1'", "max_connections = 200", "shared_buffers = 32MB", *settings]
        lines += [f"unix_socket_directories = '{self.folder}'", "autovacuum_naptime = 5"]
        with (self.data / "postgresql.conf").open("a") as configuration:
            configuration.write("\n".join(lines) + "\n")
        self.launch()
        password = psycopg.sql.quote(SECRET)
        self.sql(f"CREATE ROLE {USER} LOGIN PASSWORD {password}", database="postgres")
        self.sql(f"CREATE DATABASE {DATABASE} OWNER {USER}", database="postgres")

    def _run(self):
        faking = {
            "LD_PRELOAD": str(_FAKE_TIME),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_CACHE_DURATION": "1",
        }
        with (self.folder / "server.log").open("ab") as log:
            return subprocess.Popen(
                self._command("postgres", "-D", self.data, "-p", self.port),
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=os.environ | (faking if _FAKE_TIME and not self._is_plain else {}),
                **AS_POSTGRES,
            )

    def halt(self):
        """Stop it as an administrator does."""
        self.server.send_signal(signal.SIGINT)
        self.server.wait(_PATIENCE_SECONDS)

    def _children(self):
        return Path(f"/proc/{self.server.pid}/task/{self.server.pid}/children").read_text()

    def _mount(self):
        size = f"size={_ROOM_BYTES},mode=700"
        mounting = ["mount", "-t", "tmpfs", "-o", size, "apportion-postgres", self.data]
        if self._is_plain or os.geteuid() != 0:
            return False
        return subprocess.run(mounting, check=False, stderr=subprocess.DEVNULL).returncode == 0

    def _give(self, *paths):
        if os.geteuid() == 0:
            for path in paths:
                shutil.chown(path, "postgres", "postgres")

    def _command(self, program, *arguments):
        return [programs() / program, *map(str, arguments)]


def _alive(pid):
    """Whether a process still holds its connections: a zombie holds nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _kept(place):
    return place.with_name(f"{place.name}.kept")


RIG = PostgresRig
