"""The rig of the Redis store: a server on a free port of the loopback interface, its files in a temporary directory."""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import redis

from apportion.sim.conformance.rig import Impossible, Rig
from apportion.stores.redis.scripts import NAMES

MISSING = None if shutil.which("redis-server") else "needs redis-server: install the Debian package redis-server"
PASSWORD = "S3cr3t@:/% canary"  # searched for in all that tests see printed
START_SECONDS = 20
_META, _HISTORY = NAMES[0], NAMES[-1]
# The allocator of libc, for jemalloc asks for the time before libfaketime is ready.
_FAKETIME = [path for name in ("faketime/libfaketime.so.1", "libc.so.6") for path in Path("/usr/lib").glob(f"*/{name}")]


def free_port():
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class RedisRig(Rig):
    """A server with an append-only file synced at every write: as durable as Redis is. `options`: more settings."""

    name = "redis"

    def __init__(self, *options, append_only=True):
        if MISSING is not None:
            raise FileNotFoundError(MISSING)
        self._append_only = append_only
        self.folder = Path(tempfile.mkdtemp(prefix="redis-"))
        self.port = free_port()
        self._copy = self.folder / "copy.rdb"
        self._clock = self.folder / "clock"
        self._clock.write_text("+0")
        self._configuration = self.folder / "redis.conf"
        settings = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self.folder,
            "save": '""',
            "appendfsync": "always",
            "requirepass": f'"{PASSWORD}"',
        }
        lines = [f"{name} {value}" for name, value in settings.items()]
        self._configuration.write_text("\n".join([*lines, *options, ""]))
        try:
            self._run(append_only=append_only)
        except AssertionError:
            self.process.kill()
            self.process.wait()
            shutil.rmtree(self.folder)
            raise

    def url(self, namespace, *, address=None):
        host, port = address or self.address()
        return f"redis://:{PASSWORD}@{host}:{port}/0?namespace={quote(namespace)}"

    def address(self):
        return "127.0.0.1", self.port

    def client(self):
        """Return a connection of the standard client."""
        return redis.Redis(port=self.port, password=PASSWORD)

    async def kill(self):
        self.process.kill()
        self.process.wait()

    async def start(self):
        await asyncio.to_thread(self._run, append_only=self._append_only)

    async def compact(self):
        with self.client() as client, client.pipeline() as pipe:
            revision = client.hget(_META, "revision") or 0
            pipe.xtrim(_HISTORY, maxlen=0, approximate=False)
            pipe.hset(_META, mapping={"compacted": revision, "bytes": 0})
            pipe.execute()

    async def save(self):
        with self.client() as client:
            client.save()
        shutil.copy(self.folder / "dump.rdb", self._copy)

    async def restore(self):
        await self.kill()
        shutil.rmtree(self.folder / "appendonlydir")
        shutil.copy(self._copy, self.folder / "dump.rdb")
        await asyncio.to_thread(self._run, append_only=False)  # with it, the server would not look at the copy
        with self.client() as client:
            client.config_set("appendonly", "yes")
            self._wait(lambda: not client.info("persistence")["aof_rewrite_in_progress"], "its append-only file")

    async def restore_in_place(self):
        raise Impossible("durable", "what it acknowledged may be gone anyway")

    async def deny(self):
        with self.client() as client:
            client.execute_command("ACL", "SETUSER", "keeper", "on", "nopass", "+@all", "allkeys")
            client.execute_command("ACL", "SETUSER", "default", "-@all", "+auth", "+hello")

    async def allow(self):
        with redis.Redis(port=self.port, username="keeper", password="any") as client:
            client.execute_command("ACL", "SETUSER", "default", "+@all")

    async def fill(self):
        with self.client() as client:
            client.config_set("maxmemory", 1)

    async def relieve(self):
        with self.client() as client:
            client.config_set("maxmemory", 0)

    async def step_clock(self, seconds):
        if len(_FAKETIME) < 2:
            raise Impossible("lease_end", "needs libfaketime: install the Debian package faketime")
        self._clock.write_text(f"{seconds:+g}")
        with self.client() as client:
            self._wait(lambda: abs(client.time()[0] - time.time() - seconds) < 5, "its stepped clock")

    async def close(self):
        await self.kill()
        shutil.rmtree(self.folder)

    def _run(self, *, append_only):
        faked = {
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        environment = {**os.environ, **faked, "LD_PRELOAD": " ".join(map(str, _FAKETIME))}
        command = ["redis-server", self._configuration, "--appendonly", "yes" if append_only else "no"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
        self._wait(self._answers, "redis-server")

    def _answers(self):
        assert self.process.poll() is None, f"redis-server ended with {self.process.returncode}"
        try:
            with self.client() as client:
                return client.ping()
        except redis.ConnectionError:
            return False

    @staticmethod
    def _wait(is_done, what):
        deadline = time.monotonic() + START_SECONDS
        while not is_done():
            assert time.monotonic() < deadline, f"{what} is not ready"
            time.sleep(0.01)


RIG = RedisRig
