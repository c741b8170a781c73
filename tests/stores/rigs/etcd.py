"""The rig of the etcd store: one server, or a cluster of three, on free ports of the loopback interface.

Their files are in a temporary directory, and every write is synced. Every server is stopped by its process id.
"""

import base64
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from urllib.parse import quote

import httpx

from apportion.sim.conformance.rig import Impossible, Rig

START_SECONDS = 30
TRIES_TO_START = 3


def free_port():
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One server of a cluster, which runs or does not."""

    def __init__(self, name, folder, *, scheme="http"):
        self.name, self.scheme = name, scheme
        self.port, self.peer_port = free_port(), free_port()
        self.data, self.log = folder / name, folder / f"{name}.log"
        self.process = None

    @property
    def peer(self):
        return f"http://127.0.0.1:{self.peer_port}"

    def run(self, cluster, options):
        here = f"{self.scheme}://127.0.0.1:{self.port}"
        command = [
            "etcd", f"--name={self.name}", f"--data-dir={self.data}", f"--listen-client-urls={here}",
            f"--advertise-client-urls={here}", f"--listen-peer-urls={self.peer}", "--log-level=error", "--logger=zap",
            f"--initial-advertise-peer-urls={self.peer}", f"--initial-cluster={cluster}", *options,
        ]  # fmt: skip
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def send(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class EtcdRig(Rig):
    """A cluster, and the acts of an operator on it."""

    name = "etcd"

    def __init__(self, *options, servers=1, scheme="http", client=None):
        for program, package in (("etcd", "etcd-server"), ("etcdctl", "etcd-client")):
            if shutil.which(program) is None:
                raise FileNotFoundError(f"{program}: install the Debian package {package}")
        self.folder = Path(tempfile.mkdtemp(prefix="etcd-"))
        self.options, self.scheme = options, scheme
        self.client = client or httpx.Client(timeout=5, trust_env=False)
        self.servers = [Server(f"s{index}", self.folder, scheme=scheme) for index in range(servers)]
        self._run_all()

    def url(self, namespace, *, address=None):
        hosts = [address] if address else [("127.0.0.1", server.port) for server in self.servers]
        listed = ",".join(f"{host}:{port}" for host, port in hosts)
        return f"{'etcd' if self.scheme == 'http' else 'etcds'}://{listed}?namespace={quote(namespace)}"

    def address(self):
        return "127.0.0.1", self.servers[0].port

    async def kill(self):
        for server in self.servers:
            server.kill()

    async def start(self):
        self._run_all()

    async def compact(self):
        revision = self.ask("/v3/kv/range", {"key": text(b"!none")})["header"]["revision"]
        self.ask("/v3/kv/compaction", {"revision": revision, "physical": True}, accepted=(200, 400))

    async def save(self):
        await self._copied([(server.data, self._kept(server)) for server in self.servers])

    async def restore(self):
        await self._copied([(self._kept(server), server.data) for server in self.servers])

    async def restore_in_place(self):
        """Restore a snapshot as `etcdctl` does: the cluster keeps its id, for its servers and token are the same."""
        await self.kill()
        for server in self.servers:
            shutil.rmtree(server.data)
            snapshot = self._kept(server) / "member/snap/db"
            command = [
                "etcdctl", "snapshot", "restore", snapshot, "--skip-hash-check", f"--name={server.name}",
                f"--data-dir={server.data}", f"--initial-cluster={self._cluster()}",
                f"--initial-advertise-peer-urls={server.peer}",
            ]  # fmt: skip
            environment = {**os.environ, "ETCDCTL_API": "3"}
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._run_all()

    async def deny(self):
        """Require a user from now on; the URL has none."""
        self.ask("/v3/auth/user/add", {"name": "root", "password": "root"}, accepted=(200, 400, 412))
        self.ask("/v3/auth/role/add", {"name": "root"}, accepted=(200, 400, 412))
        self.ask("/v3/auth/user/grant", {"user": "root", "role": "root"})
        self.ask("/v3/auth/enable", {})

    async def allow(self):
        token = self.ask("/v3/auth/authenticate", {"name": "root", "password": "root"})["token"]
        self.client.headers["Authorization"] = token
        self.ask("/v3/auth/disable", {})
        del self.client.headers["Authorization"]

    async def fill(self):
        """Behave like a server with its quota used up; `test_etcd.py` tests that real ones do."""
        self._alarm("ACTIVATE")

    async def relieve(self):
        self._alarm("DEACTIVATE")

    async def step_clock(self, seconds):
        # Tried with libfaketime, which is loaded and does nothing: Go asks the kernel's vDSO and no function of libc.
        raise Impossible("lease_end", "etcd decides by its monotonic clock, and libfaketime does not reach Go")

    async def close(self):
        await self.kill()
        self.client.close()
        shutil.rmtree(self.folder)

    def ask(self, path, body, *, server=None, accepted=(200,)):
        """Return the answer of a server."""
        reply = self.client.post(f"{self.scheme}://127.0.0.1:{(server or self.servers[0]).port}{path}", json=body)
        assert reply.status_code in accepted, reply.text
        return reply.json()

    def leader(self):
        """Return the server that leads now."""
        leaders = {}

        def is_known():
            for server in self.servers:
                try:
                    status = self.ask("/v3/maintenance/status", {}, server=server)
                except (httpx.HTTPError, AssertionError):
                    continue
                leaders[status["header"]["member_id"]] = server
                self._leader = status.get("leader")
            return self._leader in leaders

        self._leader = None
        wait_until(is_known, "a leader")
        return leaders[self._leader]

    def start_server(self, server):
        """Run one server that was killed."""
        server.run(self._cluster(), self.options)

    def _cluster(self):
        return ",".join(f"{each.name}={each.peer}" for each in self.servers)

    def _run_all(self):
        for _ in range(TRIES_TO_START):
            for server in self.servers:
                self.start_server(server)
            if wait_until(self._answer, "etcd", ended=self._ended):
                return
            for server in self.servers:  # a port was taken meanwhile, or is not free yet
                server.kill()
        raise AssertionError("\n".join(server.log.read_text()[-2000:] for server in self.servers))

    def _ended(self):
        return any(server.process.poll() is not None for server in self.servers)

    def _answer(self):
        try:
            return all(self._answers(server) for server in self.servers)
        except httpx.HTTPError:
            return False

    def _answers(self, server):
        status = self.client.get(f"{self.scheme}://127.0.0.1:{server.port}/health")
        return status.status_code == 200 and status.json()["health"] == "true"

    def _kept(self, server):
        return self.folder / f"{server.name}.kept"

    async def _copied(self, pairs):
        await self.kill()
        for source, target in pairs:
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target)
        self._run_all()

    def _alarm(self, action):
        members = self.ask("/v3/cluster/member/list", {})["members"]
        for member in members:
            self.ask("/v3/maintenance/alarm", {"action": action, "memberID": member["ID"], "alarm": "NOSPACE"})


class Pause:
    """Within: a server neither answers nor ends (SIGSTOP)."""

    def __init__(self, *servers):
        self._servers = servers

    def __enter__(self):
        for server in self._servers:
            server.send(signal.SIGSTOP)

    def __exit__(self, *error):
        for server in self._servers:
            server.send(signal.SIGCONT)


def text(data):
    """Return bytes as the gateway wants them."""
    return base64.b64encode(data).decode()


def wait_until(is_done, what, *, ended=lambda: False):
    """Wait for a condition; False when its subject has ended first."""
    deadline = time.monotonic() + START_SECONDS
    while not is_done():
        assert time.monotonic() < deadline, f"{what} did not come"
        if ended():
            return False
        time.sleep(0.02)
    return True


RIG = EtcdRig
RIG3 = partial(EtcdRig, servers=3)
