"""`apportion store` and `apportion doctor --store`: what they print, refuse, and never say."""

import ast
import asyncio
import json
import re
import socket
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

import apportion
from apportion.console.doctor import store as doctor_store
from apportion.console.main import STORE_COMMANDS
from tests.console.running import refused, run

PASSWORD = "S3cr3t@:/% canary"
NOBODY = "127.0.0.1:1"
LATEST_SECONDS = 6
ASKING = [("doctor", "--store"), *(("store", name) for name in STORE_COMMANDS)]
CONNECTING = [("doctor", "--store"), ("store", "upgrade"), ("store", "restored")]


def completed(*arguments):
    """Return the arguments, with what else the command needs."""
    return (*arguments, "--user", "worker") if "grants" in arguments else arguments


def printed(*arguments, folder):
    done = run(*arguments, folder=folder)
    return done.returncode, done.stdout.decode() + done.stderr.decode()


def test_doctor_says_what_a_store_promises_and_how_quick_it_is(tmp_path):
    code, text = printed("doctor", "--store", "memory://", folder=tmp_path)
    assert 0 == code
    rows = dict(line.split()[:2] for line in text.splitlines() if len(line.split()) == 2)
    assert ("NO", "yes", "NO") == (rows["durable"], rows["fencing"], rows["multi_host"])
    assert all(0 <= float(rows[request]) < 1000 for request in ("scan", "commit", "renew"))
    assert text.endswith("doctor: memory://: 2 checks, errors 0, warnings 1\n")


def test_the_json_of_doctor_holds_findings_promises_and_milliseconds(tmp_path):
    said = json.loads(run("doctor", "--store", "memory://", "--json", folder=tmp_path).stdout)
    assert (1, "doctor", True, "memory://") == tuple(
        said[key] for key in ("format_version", "command", "healthy", "store")
    )
    assert ["durability", "records"] == [each["subject"] for each in said["findings"]]
    assert (True, 1000) == (said["promises"]["fencing"], said["promises"]["max_operations"])
    assert {"scan", "commit", "renew"} == set(said["milliseconds"])


def test_a_store_without_a_schema_or_users_has_nothing_to_do(tmp_path):
    assert (0, "memory:// has schema 1, the newest: nothing to do\n") == printed(
        "store", "upgrade", "memory://", folder=tmp_path
    )
    made = "sqlite:///w.db has schema 1 now; it had none\n"
    made += "sqlite:///w.db has version 1 of the tables of tasks now; it had none\n"
    assert (0, made) == printed("store", "upgrade", "sqlite:///w.db", folder=tmp_path)
    said = json.loads(run("store", "upgrade", "sqlite:///w.db", "--json", folder=tmp_path).stdout)
    assert (1, 1, {"before": 1, "after": 1}) == (said["before"], said["after"], said["tasks"])
    assert (0, "-- memory:// has no schema: nothing to run\n") == printed(
        "store", "upgrade", "memory://", "--sql", folder=tmp_path
    )
    assert (0, "-- memory:// has no users: nothing to grant\n") == printed(
        "store", "grants", "memory://", "--user", "worker", folder=tmp_path
    )


def test_the_printed_statements_are_a_script_that_makes_a_store(tmp_path):
    code, script = printed("store", "upgrade", "sqlite:///work.db", "--sql", folder=tmp_path)
    assert 0 == code
    with closing(sqlite3.connect(tmp_path / "work.db", isolation_level=None)) as connection:
        connection.executescript(script)
    assert (0, "sqlite:///work.db has schema 1, the newest: nothing to do\n") == printed(
        "store", "upgrade", "sqlite:///work.db", folder=tmp_path
    )


def test_a_file_that_cannot_be_reached_is_not_called_a_failure_to_print(tmp_path):
    complaint = refused(run("store", "upgrade", f"sqlite:///{'a' * 300}.db", folder=tmp_path))
    assert "out of reach" in complaint
    assert "output" not in complaint


@pytest.mark.parametrize(
    ("arguments", "held"),
    [
        (("upgrade", "memory://"), {"before": 1, "after": 1, "tasks": {"before": 0, "after": 0}}),
        (("upgrade", "memory://", "--sql"), {"statements": []}),
        (("grants", "memory://", "--user", "worker"), {"statements": []}),
    ],
)
def test_every_command_has_json(arguments, held, tmp_path):
    said = json.loads(run("store", *arguments, "--json", folder=tmp_path).stdout)
    assert {"format_version": 1, "command": f"store {arguments[0]}", "store": "memory://", **held} == said


def test_what_ends_with_its_process_cannot_be_restored(tmp_path):
    assert "outlives its process" in refused(run("store", "restored", "memory://", folder=tmp_path))


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_an_unknown_scheme_or_option_names_the_nearest(command, tmp_path):
    said = refused(run(*completed(*command, "memry://"), folder=tmp_path))
    assert "Did you mean 'memory'?" in said
    said = refused(run(*completed(*command, "memory://?namspace=a"), folder=tmp_path))
    assert "Did you mean 'namespace'?" in said


@pytest.mark.slow
@pytest.mark.parametrize("command", CONNECTING, ids=" ".join)
def test_a_store_that_takes_connections_and_says_nothing_is_given_up(command, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        url = f"redis://:{PASSWORD}@127.0.0.1:{silent.getsockname()[1]}/0"
        code, text = printed(*command, url, folder=tmp_path)
        assert time.monotonic() - started < LATEST_SECONDS
    assert (1, True) == (code, "is unavailable: no answer in time" in text), text


@pytest.mark.parametrize("command", CONNECTING, ids=" ".join)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_a_store_that_is_away_is_an_error_without_the_password(command, form, tmp_path):
    code, text = printed(*command, f"redis://worker:{PASSWORD}@{NOBODY}/0", *form, folder=tmp_path)
    assert (1, True) == (code, f"redis://{NOBODY}/0 is unavailable: connection refused" in text), text
    assert_without_secret(text)
    if form and command[0] == "doctor":
        said = json.loads(text)
        assert (False, None, None) == (said["healthy"], said["promises"], said["milliseconds"])


MISTAKES = [
    "redis://worker:{}@{}/0",
    "rediss://worker:{}@{}/0?ca=absent.pem",
    "redis://worker:{}@{}/0?nonsense=1",
    "redis://worker:{}@{}/database",
    "redis://worker:{}@{}:port/0",
    "redis://worker:{}@{},other/0",
    "red://worker:{}@{}/0",
    "redis:/worker:{}@{}/0",
    "worker:{}@{}/0",
    "{}@{}",
    "redis://worker:{}@{}/0?namespace=",
]


@pytest.mark.slow
@pytest.mark.parametrize("url", MISTAKES)
@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_no_mistake_in_a_url_makes_a_command_say_the_password(url, command, tmp_path):
    url = url.format(PASSWORD, NOBODY)
    for arguments in (
        (*command, url),
        (*command, url, "--json"),
        (*command, url, url),
        (*command, url, "--nonsense"),
        (*command, f"--store={url}"),
        (*command, f"--json={url}"),
        (command[0], url),
    ):
        code, text = printed(*completed(*arguments), folder=tmp_path)
        assert_without_secret(text)
        assert code == 1 or "grants" in command


def assert_without_secret(text):
    assert "S3cr3t" not in text
    assert "canary" not in text
    assert "Traceback" not in text


def test_doctor_makes_nothing_where_nothing_is(tmp_path):
    code, text = printed("doctor", "--store", "sqlite:///mistyped.db", folder=tmp_path)
    assert (0, []) == (code, list(tmp_path.iterdir()))
    assert "file: The first connect makes it" in text
    assert "median" not in text
    (tmp_path / "empty.db").touch()
    code, text = printed("doctor", "--store", "sqlite:///empty.db", folder=tmp_path)
    assert (0, 0) == (code, (tmp_path / "empty.db").stat().st_size)
    assert "schema: The first connect makes it" in text


def test_doctor_measures_a_file_that_is_there(tmp_path):
    printed("store", "upgrade", "sqlite:///there.db", folder=tmp_path)
    assert "median" in printed("doctor", "--store", "sqlite:///there.db", folder=tmp_path)[1]


def test_every_command_that_an_advice_names_is_one(tmp_path):
    known = {f"apportion store {name} URL" for name in STORE_COMMANDS} - {"apportion store grants URL"}
    known |= {"apportion store grants URL --user NAME", "apportion doctor --store URL"}
    named = set()
    for file in Path(apportion.__file__).parent.rglob("*.py"):
        source = file.read_text()
        tree = ast.parse(source) if re.search("apportion (store|doctor)", source) else ast.Module([])
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        for text in texts:
            if isinstance(text, str) and "`" not in text:
                named |= set(re.findall(r"apportion (?:store \w+|doctor)(?: (?:--\w+|[A-Z]+\b))+", text))
    assert known == named


def test_a_diagnosis_that_takes_too_long_is_a_finding(tmp_path, monkeypatch):
    class Endless:
        async def inspect(self):
            await asyncio.Event().wait()

    monkeypatch.setattr(doctor_store, "administration", lambda url: Endless())
    monkeypatch.setattr(doctor_store, "_INSPECT_SECONDS", 0.05)
    code, text = printed("doctor", "--store", "memory://", folder=tmp_path)
    assert (1, True) == (code, "no answer within 0.05 s" in text), text
