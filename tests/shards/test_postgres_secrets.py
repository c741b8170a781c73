"""The password of the servers, at each place where a command of shards could show it: no place shows it.

The marker is in the password of both shards, of the control store, and of all wrong passwords. The places are all that
the commands print, the logs of the program and of the servers, tracebacks, the names of processes, and all that
roles without rights see of the activity and of the subscriptions of a server.
"""

import asyncio
import logging
import os
import signal
import subprocess
import threading
import time
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from apportion.errors import ApportionError
from apportion.shards import admin
from tests.console.running import COMMAND, run
from tests.shards.postgres_rig import LOGICAL
from tests.shards.sample import SET, Base
from tests.shards.server import OWNER, as_role
from tests.shards.test_postgres_native import Pair, stopped
from tests.stores.rigs.postgres import USER, PostgresRig

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(300)]

MARKER = "cAnAry"
WRONG = f"@:/?#%&= {MARKER}@:/?#%&= "
MODELS = ("--models", "tests.shards.sample:Base")
LOUD = {
    "log_statement": "all",
    "log_min_duration_statement": "0",
    "log_error_verbosity": "verbose",
    "log_connections": "on",
}
SEEN = (
    "SELECT query, application_name FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
    "SELECT subname, subslotname::text FROM pg_subscription",
    "SELECT subname, NULL FROM pg_stat_subscription",
    "SELECT usename::text, application_name FROM pg_stat_replication",
    "SELECT slot_name::text, NULL FROM pg_replication_slots",
)


class Told:
    """All that was shown so far: texts, each with its place."""

    def __init__(self):
        self.texts, self.commands, self.exits = {}, set(), set()

    def add(self, place, *texts):
        self.texts.setdefault(place, set()).update(
            each.decode(errors="replace") if isinstance(each, bytes) else f"{each}" for each in texts
        )

    def run(self, files, *words):
        """Run a command of shards in both forms."""
        for form in ((), ("--json",)):
            done = run("shards", *words[:1], files.url, SET, *words[1:], *form, folder=files.folder)
            self.add(f"shards {' '.join(words)}", done.stdout, done.stderr)
            self.commands.add(words[0])
            self.exits.add((words[0], done.returncode))

    def fail(self, place, work):
        """Keep the traceback of a call that has to fail."""
        with pytest.raises(ApportionError) as error:
            asyncio.run(work)
        self.add(f"traceback of {place}", repr(error.value), *traceback.format_exception(error.value))

    def leaks(self):
        return sorted(place for place, texts in self.texts.items() for each in texts if MARKER in each)


class SecretPair(Pair):
    """A pair whose control store has a URL with the password."""

    url = property(lambda self: self.control, lambda self, _: None)

    def __init__(self, rigs, folder):
        self.control = rigs[0].url(f"control-{time.monotonic_ns()}")
        super().__init__(rigs, folder)


@pytest.fixture
def servers():
    made = [PostgresRig(settings=LOGICAL) for _ in range(2)]
    yield made
    for each in made:
        each.stop()


@pytest.fixture
def files(servers, tmp_path, monkeypatch):
    as_role(monkeypatch, OWNER)
    for rig in servers:
        rig.sql(f"ALTER ROLE {USER} NOINHERIT; GRANT pg_read_all_stats TO {USER}", database="postgres")
        for setting, value in LOUD.items():
            rig.sql(f"ALTER SYSTEM SET {setting} = '{value}'")
        rig.sql("SELECT pg_reload_conf()")
    made = SecretPair(servers, tmp_path)
    made.fill(made.owned()[:4])
    yield made
    made.drop()


@contextmanager
def watched(files, told):
    """Look again and again at both servers as a role without rights, and at the names of all processes."""
    ended = threading.Event()

    def _look(shard):
        with files.connect(shard, user=USER, autocommit=True) as connection:
            connection.execute("SET ROLE pg_read_all_stats")
            while not ended.wait(0.002):
                for statement in SEEN:
                    told.add(f"{shard}: {statement}", *connection.execute(statement).fetchall())

    def _list():
        while not ended.wait(0.1):
            for each in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    told.add("processes", each.read_bytes())

    threads = [threading.Thread(target=_look, args=[shard]) for shard in ("one", "two")]
    threads.append(threading.Thread(target=_list))
    for each in threads:
        each.start()
    try:
        yield
    finally:
        ended.set()
        for each in threads:
            each.join()


def logs(files):
    return {rig: (rig.folder / "server.log").stat().st_size for rig in files.rigs.values()}


def test_no_command_message_log_or_activity_of_a_server_shows_the_password(files, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    told, before = Told(), logs(files)
    with watched(files, told):
        of_a_life(files, told)
        of_refusals(files, told, monkeypatch)
    for rig, size in before.items():
        told.add("server's log", (rig.folder / "server.log").read_bytes()[size:])
    told.add("log", caplog.text)
    assert [] == told.leaks()
    assert {0, 1} == {code for _, code in told.exits if code != 2}
    assert any("CREATE PUBLICATION" in each for each in told.texts["server's log"]), "the logs are loud"
    assert any("DO $made$" in each for place, texts in told.texts.items() if "query" in place for each in texts)


def of_a_life(files, told):
    """Give each command once, while moves are in many states; keep all that it prints."""
    slots = files.owned()[:2]
    told.run(files, "doctor")
    told.run(files, "doctor", *MODELS, "--whole")
    told.run(
        files, "add", f"one={files.shards['one'].url}", "--replication-url", f"one={files.shards['one'].url}", *MODELS
    )
    told.run(files, "plan", "--drain", "one", "-o", "plan.json", "--force")
    stopped(files, "chunk", slots)
    with looking(files, told):
        for words in ("status",), ("pause",), ("doctor",), ("recover", "--check"), ("repair",), ("apply",):
            told.run(files, *words)
    told.run(files, "abort")
    told.run(files, "plan", "--move", f"{slots[0]}", "--to", "two", "-o", "plan.json", "--force")
    told.run(files, "apply", "plan.json", "--channel", "native", "--reversible")
    moves = asyncio.run(admin.status(files.url, SET)).moves
    for words in (
        ("reverse", *[each.id for each in moves]),
        ("clean",),
        ("drain", "one"),
        ("rebalance",),
        ("verify", *MODELS),
        ("pin", *MODELS, "ABC"),
        ("route", "FR"),
        ("accept-failover", "one", "--check"),
        ("clean", "--soak", "0s"),
        ("remove", "two"),
    ):
        told.run(files, *words)


@contextmanager
def looking(files, told):
    """Let `status --watch` look from another process, whose words hold no password."""
    environment = {**os.environ, "APPORTION_STORE": files.url}
    words = ("shards", "status", SET, "--watch", "--every", "0.1s")
    children = [
        subprocess.Popen(
            [*COMMAND, *words, *form],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=files.folder,
        )
        for form in ((), ("--json",))
    ]
    try:
        yield
    finally:
        for child in children:
            child.send_signal(signal.SIGINT)
            told.add("status --watch", child.communicate(timeout=30)[0])


def of_refusals(files, told, monkeypatch):
    """Give wrong passwords, places and URLs; keep the messages and tracebacks."""
    url = files.shards["two"].url
    wrong = url.replace(f":{files.rigs['two'].port}/", ":1/")
    absent = url.replace(files.name("two"), "absent")
    commands = [("status",), ("doctor",), ("plan",), ("drain", "one"), ("verify", *MODELS), ("remove", "one")]
    for other in (wrong, absent, url.replace("${SERVER_SECRET}", quote(WRONG, safe="")), f"{url}?password={MARKER}"):
        told.run(files, "add", f"six={other}", *MODELS)
        told.run(files, "add", f"one={files.shards['one'].url}", "--replication-url", f"one={other}", *MODELS)
        told.run(files, "doctor")
        told.fail("add", admin.add(files.url, SET, {"six": other}, base=Base))
    monkeypatch.setenv("SERVER_SECRET", quote(WRONG, safe=""))
    for words in commands:
        told.run(files, *words)
    told.fail("doctor", admin.drain(files.url, SET, "one"))
    for control in (
        files.url.replace("@127", f"{MARKER}@127"),
        files.url.replace(f":{files.rigs['one'].port}/", ":1/"),
    ):
        files.control, kept = control, files.control
        for words in commands:
            told.run(files, *words)
        told.fail("status", admin.status(files.url, SET))
        files.control = kept
