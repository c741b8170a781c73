"""A Kafka broker of one process in KRaft mode on loopback, its data in a folder of its own; and consumers as processes.

Promises: nothing outlives `with`: the broker and the consumers are ended by their process ids.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from uuid import uuid4

from bench.jvm import jars_of

PATIENCE_SECONDS = 60
LOOK_SECONDS = 0.05
ROOT = Path(__file__).parents[2]

PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=500
"""


class Broker(AbstractContextManager["Broker"]):
    """A broker that runs until the block ends; raises `bench.jvm.Absent` where there can be none."""

    def __init__(self, folder):
        self._folder, self._java = Path(folder), ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1"]
        self._java += ["-cp", f"{jars_of('broker.xml')}/*"]
        self.port = free_port()
        self._settings = self._folder / "server.properties"
        self._settings.write_text(PROPERTIES.format(folder=folder, port=self.port, controller=free_port()))

    @property
    def address(self):
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self):
        # A cluster's id is 22 letters of base64; Kafka refuses one that starts with a dash.
        name = "A" + uuid4().hex[:20] + "A"
        with (self._folder / "broker.log").open("wb") as log:
            tool = [*self._java, "kafka.tools.StorageTool", "format", "-t", name, "-c", str(self._settings)]
            subprocess.run(tool, check=True, stdout=log, stderr=log)
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._settings)], cwd=self._folder, stdout=log, stderr=log
            )
        try:
            until(self._is_up, "the broker listens")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()

    def _is_up(self):
        assert self._process.poll() is None, (self._folder / "broker.log").read_text()[-2000:]
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False


class Consumers(AbstractContextManager["Consumers"]):
    """The consumers of one group, each a process of `tests.live.kafka_consumer`, and what they said.

    `client` and `assignor` are those of all members that `start` says nothing else of.
    """

    def __init__(self, address, *, client, assignor, group, topic, errors):
        self._said = {"address": address, "client": client, "assignor": assignor, "group": group, "topic": topic}
        self._errors = errors
        self._processes, self._rest, self._events, self._marked = {}, {}, [], 0

    def __exit__(self, *_):
        for name in list(self._processes):
            self.kill(name)

    def start(self, name, **options):
        """Start a consumer."""
        said = json.dumps(self._said | options | {"name": name})
        with self._errors.open("ab") as errors:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "tests.live.kafka_consumer", said],
                cwd=ROOT, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip
            os.set_blocking(self._processes[name].stdout.fileno(), False)
        self._rest[name] = b""

    def kill(self, name):
        """Kill a consumer with -9, as the kernel does when memory is short."""
        process = self._processes[name]
        process.send_signal(signal.SIGKILL)
        process.wait()
        self._hear(name)
        del self._processes[name]
        process.stdout.close()

    def send(self, number, *names):
        """Send a signal to consumers."""
        for name in names:
            self._processes[name].send_signal(number)

    def wait(self, is_so, what):
        """Listen to the consumers until something is so."""

        def seen():
            for name, process in self._processes.items():
                assert process.poll() is None, f"{name} has ended: {self._errors.read_text()[-3000:]}"
                self._hear(name)
            return is_so()

        until(seen, what)

    def owned(self, name):
        """Return the partitions that a consumer owns, as it said last."""
        said = [event["owned"] for event in self._events if event["name"] == name and "owned" in event]
        return said[-1] if said else []

    def read(self):
        """Return the messages that anybody has read, as often as they were."""
        return [message for event in self._events for message in event.get("read", ())]

    def mark(self):
        """Return what was said since the last mark."""
        since, self._marked = self._events[self._marked :], len(self._events)
        return since

    def _hear(self, name):
        said = self._rest[name] + (self._processes[name].stdout.read() or b"")
        *lines, self._rest[name] = said.split(b"\n")
        self._events += [json.loads(line) | {"name": name} for line in lines]


def until(is_so, what):
    """Wait until something is so; fail after a minute."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"not yet: {what}"
        time.sleep(LOOK_SECONDS)


def free_port():
    """Return a port that is free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
