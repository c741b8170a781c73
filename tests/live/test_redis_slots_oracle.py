"""A real Redis server gives every key the slot that `redis_slots` gives it, and its `CLUSTER NODES` reads back.

Needs the Debian package `redis-server`. The servers listen on free ports of the loopback interface, keep their files in
a temporary directory, and are stopped by their process ids.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from itertools import pairwise
from random import Random

import pytest

from apportion import balance
from apportion.console.files.readers.redis_cluster import parse_cluster_nodes
from apportion.placement.layouts.redis_slots import SLOTS, RedisSlots, slot

pytestmark = pytest.mark.live

MISSING = "needs redis-server: install the Debian package redis-server"
RANDOM_KEYS = int(os.environ.get("APPORTION_ORACLE_KEYS", "20000"))
START_SECONDS = 20
BATCH = 1000
CORNERS = (
    b"", b"{", b"}", b"{}", b"{}a", b"a{b", b"}a{b}", b"a{{b}}c", b"{a}{b}", b"foo{}{bar}", b"foo{bar}{zap}", b"{{}}",
    b"{\x00}", b"a}{b", b"{a", b"a}", b"{a}b}", b"{user1}.name", b"\x00{\xff}\x00", b"{}", b"{} {a}", b"123456789",
)  # fmt: skip


class Server:
    """A Redis server in cluster mode, and a connection that speaks its protocol."""

    def __init__(self, folder, port):
        options = ("--port", port, "--bind", "127.0.0.1", "--cluster-enabled", "yes", "--save", "", "--dir", folder)
        options += ("--appendonly", "no", "--cluster-node-timeout", "2000", "--daemonize", "no")
        self.port = port
        self.process = subprocess.Popen(["redis-server", *map(str, options)], stdout=subprocess.DEVNULL)
        self.connection = self._connected()
        self.reader = self.connection.makefile("rb")

    def _connected(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", self.port), timeout=START_SECONDS)
            time.sleep(0.01)
        raise AssertionError(f"redis-server did not start: {self.process.poll()}")

    def ask(self, *commands):
        """Return the replies to commands that are sent in one go."""
        self.connection.sendall(b"".join(map(self._request, commands)))
        return [self._reply() for _ in commands]

    @staticmethod
    def _request(words):
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)

    def _reply(self):
        line = self.reader.readline().rstrip(b"\r\n")
        kind, value = line[:1], line[1:]
        if kind == b":":
            return int(value)
        if kind == b"$":
            return self.reader.read(int(value) + 2)[:-2]
        assert b"+" == kind, line
        return value

    def stop(self):
        """End the process, which nobody waits for otherwise."""
        self.connection.close()
        self.process.terminate()
        self.process.wait(START_SECONDS)


def free_port():
    """Return a port that is free, also the one 10 000 above it, where the nodes talk to each other."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            if port < 55_000:
                with contextlib.suppress(OSError):
                    second.bind(("127.0.0.1", port + 10_000))
                    return port


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Three servers of their own."""
    if shutil.which("redis-server") is None:
        if os.environ.get("CI") == "true":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    started = []
    try:
        while len(started) < 3:
            started.append(Server(tmp_path_factory.mktemp("redis"), free_port()))
        yield started
    finally:
        for server in started:
            server.stop()


def random_keys(random):
    """Yield keys of every length up to 64: any bytes, bytes full of braces, text of any script, 64-bit integers."""
    for number in range(RANDOM_KEYS):
        length = number % 65
        yield random.randbytes(length)
        yield bytes(random.choices(b"{}{}ab\x00\xff", k=length))
        yield "".join(map(chr, random.choices(range(0xA0, 0xD7FF), k=length))).encode()
        yield random.getrandbits(64).to_bytes(8, "little")


def test_every_key_has_the_slot_that_redis_gives_it(servers):
    keys = [*CORNERS, *random_keys(Random(7))]
    different = []
    for start in range(0, len(keys), BATCH):
        batch = keys[start : start + BATCH]
        answers = servers[0].ask(*((b"CLUSTER", b"KEYSLOT", key) for key in batch))
        different += [(key, answer) for key, answer in zip(batch, answers, strict=True) if slot(key) != answer]
    assert (4 * RANDOM_KEYS + len(CORNERS), []) == (len(keys), different[:5])


def test_what_a_cluster_says_of_itself_reads_back(servers):
    first, *others = servers
    bounds = [SLOTS * number // 3 for number in range(4)]
    for server, (start, end) in zip(servers, pairwise(bounds), strict=True):
        server.ask((b"CLUSTER", b"ADDSLOTSRANGE", b"%d" % start, b"%d" % (end - 1)))
    first.ask(*((b"CLUSTER", b"MEET", b"127.0.0.1", b"%d" % server.port) for server in others))
    ids = [server.ask((b"CLUSTER", b"MYID"))[0].decode() for server in servers]
    wait_until(lambda: all(server.ask((b"CLUSTER", b"INFO"))[0].count(b"cluster_state:ok") for server in servers))
    text = wait_until(lambda: _settled(first))

    found = parse_cluster_nodes(text.decode())
    placed = RedisSlots(found.assignment)
    assert sorted(ids) == list(found.topology.ids)
    assert {node_id: f"127.0.0.1:{server.port}" for node_id, server in zip(ids, servers, strict=True)} == dict(
        found.addresses
    )
    for number in range(3):
        assert (ids[number],) == placed.assignment[bounds[number]] == placed.assignment[bounds[number + 1] - 1]
    assert balance.slots(found.topology, previous=found.assignment) == found.assignment

    first.ask((b"CLUSTER", b"SETSLOT", b"7", b"MIGRATING", ids[1].encode()))
    moving = parse_cluster_nodes(first.ask((b"CLUSTER", b"NODES"))[0].decode(), accept_migrating=True)
    assert {7: ids[1]} == dict(moving.migrating)
    assert found.assignment == moving.assignment


def _settled(server):
    """Return what a node says of the cluster once the others have told it their slots and are past their handshake."""
    text = server.ask((b"CLUSTER", b"NODES"))[0]
    return text if text.count(b"connected ") == 3 and b"handshake" not in text else None


def wait_until(condition):
    """Return the first true answer of `condition`; fail at a deadline."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError("the cluster did not settle")
