"""`apportion cron`: an operator looks ahead, deploys, reads and acts; it prints text or one JSON object."""

import asyncio
import json
import sqlite3
import sys
from contextlib import closing, suppress

import pytest

from apportion.console.options.store_url import VARIABLE
from apportion.stores import connect
from apportion.work.cron.zone_data import zone_data_version
from tests.console.running import refused, run, written

URL = "sqlite:///work.db"
PROGRAM = """
from datetime import timedelta
import apportion
queue = apportion.Queue("sqlite:///work.db", "reports")
@queue.cron("{rule}", zone="Europe/Berlin")
@queue.task()
async def report(tenant: str = "all") -> None: ...
@queue.every(timedelta(minutes=5))
@queue.task()
def {tidy}() -> None: ...
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with the program `app`; each test gets its own module."""
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    deploy(tmp_path)
    yield tmp_path
    sys.modules.pop("app", None)


def deploy(folder, *, rule="0 9 * * mon-fri", tidy="tidy"):
    """Write another version of the program."""
    sys.modules.pop("app", None)
    sys.path_importer_cache.clear()
    written(folder, "app.py", PROGRAM.format(rule=rule, tidy=tidy))
    for each in folder.glob("__pycache__/*"):
        each.unlink()


def said(*arguments, folder, code=0):
    done = run("cron", *arguments, folder=folder)
    assert (code, b"") == (done.returncode, done.stderr)
    return done.stdout.decode()


def told(*arguments, folder, code=0):
    document = json.loads(said(*arguments, "--json", folder=folder, code=code))
    assert (1, f"cron {arguments[0]}") == (document.pop("format_version"), document.pop("command"))
    return document


def test_the_next_slots_of_a_rule_are_instants_in_utc(tmp_path):
    found = told(
        "next", "30 2 * * *", "--zone", "America/New_York", "--after", "2026-03-07T12:00Z", "-n", 2, folder=tmp_path
    )
    assert {"zone": "America/New_York", "slots": ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]} == found


def test_an_explanation_names_the_change_and_the_slots_of_each_touched_time(tmp_path):
    asked = ("next", "30 1 * * *", "--zone", "America/New_York", "--fold", "both", "--after", "2026-10-31T12:00Z")
    text = said(*asked, "--explain", "--number", "2", folder=tmp_path)
    assert "2026-11-01T06:00:00Z: the clocks go back from 02:00 to 01:00" in text
    assert "01:30 comes twice; its slots are 2026-11-01T05:30:00Z, 2026-11-01T06:30:00Z" in text
    (change,) = told(*asked, "--explain", folder=tmp_path)["changes"]
    assert [{"local": "2026-11-01T01:30", "slots": ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]}] == change["times"]
    assert "no clock change" in said("next", "30 1 * * *", "--explain", folder=tmp_path)


def test_a_plan_counts_as_pending_until_it_is_applied(folder):
    plan = told("plan", "app:queue", folder=folder, code=2)
    assert (True, ["add", "add"]) == (plan["pending"], [each["act"] for each in plan["changes"]])
    assert "2 added" in said("apply", "app:queue", folder=folder)
    assert {"queue": "reports", "pending": False, "changes": []} == told("plan", "app:queue", folder=folder)


def test_a_deployment_adds_changes_and_removes(folder):
    said("apply", "app:queue", folder=folder)
    deploy(folder, rule="0 8 * * *", tidy="sweep")
    text = said("plan", "app:queue", folder=folder, code=2)
    assert "rule 0 9 * * mon-fri Europe/Berlin -> 0 8 * * * Europe/Berlin" in text
    assert "1 to add, 1 to change, 1 to remove" in text
    listed = told("ls", URL, "--app", "app:queue", folder=folder)
    assert [("change", "report"), ("add", "sweep"), ("remove", "tidy")] == [
        (each["act"], each["name"]) for each in listed["changes"]
    ]
    lines = said("ls", URL, "--app", "app:queue", folder=folder).splitlines()
    for mark in ("~ report", "+ sweep", "- tidy"):
        assert any(line.startswith(mark) for line in lines)
    assert "1 added, 1 changed, 1 removed" in said("apply", "app:queue", folder=folder)
    assert ["report", "sweep"] == [each["name"] for each in told("ls", URL, folder=folder)["schedules"]]


def test_a_listed_schedule_has_its_rule_its_slots_and_its_trouble(folder):
    said("apply", "app:queue", folder=folder)
    with closing(sqlite3.connect(folder / "work.db", isolation_level=None)) as file:
        file.execute("UPDATE schedule SET zone = 'Mars/Olympus', tzdata = '1999a' WHERE name = 'report'")
        file.execute("UPDATE schedule SET jitter_ms = 'soon' WHERE name = 'tidy'")
    report, tidy = told("ls", URL, "reports", folder=folder)["schedules"]
    assert ("0 9 * * mon-fri", "unable", True) == (report["rule"], report["trouble"], report["next"].endswith("Z"))
    assert (None, 300.0, "damaged") == (tidy["rule"], tidy["every_seconds"], tidy["trouble"])
    text = said("ls", URL, folder=folder)
    assert "note: report: unable: this host cannot evaluate it: zone is 'Mars/Olympus'" in text
    assert "note: tidy: damaged: its row is damaged: jitter_ms is 'soon'" in text


def test_a_schedule_that_has_fired_no_slot_shows_never_and_words_begin_below_their_headings(folder):
    said("apply", "app:queue", folder=folder)
    heading, _, *lines = said("ls", URL, folder=folder).splitlines()
    places = [heading.index(each) for each in ("queue", "rule", "next", "last")]
    assert ["repo", "0 9", "20", "never"] == [
        line[place : place + len(found)]
        for line, place, found in zip([lines[0]] * 4, places, ["repo", "0 9", "20", "never"], strict=True)
    ]
    assert [None, None] == [each["last"] for each in told("ls", URL, folder=folder)["schedules"]]
    for act in ("pause", "resume"):
        said(act, URL, "reports", "tidy", folder=folder)
    assert None is told("ls", URL, folder=folder)["schedules"][1]["last"]
    said("run-now", URL, "reports", "tidy", folder=folder)
    newest = told("history", URL, "reports", "tidy", folder=folder)["slots"][-1]["slot"]
    assert [None, newest] == [each["last"] for each in told("ls", URL, folder=folder)["schedules"]]


def test_a_schedule_is_paused_resumed_run_and_forgotten(folder):
    said("apply", "app:queue", folder=folder)
    place = (URL, "reports", "tidy")
    assert "as before" not in said("pause", *place, folder=folder)
    assert "as before" in said("pause", *place, folder=folder)
    assert "tidy is paused" in said("ls", URL, folder=folder)
    assert told("resume", *place, folder=folder)["changed"]
    task = told("run-now", *place, folder=folder)["task"]
    marks = told("history", *place, folder=folder)["slots"]
    assert (task, "run-now", "fired") == (marks[-1]["task"], marks[-1]["by"], marks[-1]["what"])
    assert task in said("history", *place, folder=folder)
    assert 3 == len(told("next", *place, "-n", "3", folder=folder)["slots"])
    said("rm", *place, folder=folder)
    assert "schedule is 'tidy'" in refused(run("cron", "rm", *place, folder=folder))


def test_the_url_may_come_from_the_environment_and_a_rule_needs_none(folder, monkeypatch):
    said("apply", "app:queue", folder=folder)
    monkeypatch.setenv(VARIABLE, URL)
    assert 1 == len(told("next", "reports", "tidy", "-n", "1", folder=folder)["slots"])
    assert 5 == len(told("next", "0 9 * * *", folder=folder)["slots"])
    assert 5 == len(told("next", "@daily", folder=folder)["slots"])
    assert 2 == len(told("ls", folder=folder)["schedules"])
    assert {"pending": False} == {"pending": told("plan", "app:queue", folder=folder)["pending"]}


MISTAKES = [
    (("next", "*/0 * * * *"), "minute"),
    (("next", "60 * * * *"), "minute"),
    (("next", "0 0 30 2 *"), "day"),
    (("next", "٣ * * * *"), "minute"),
    (("next", ",".join(map(str, range(10_000))) + " * * * *"), "1000 characters"),
    (("next", "0 0 * * * *"), "every"),
    (("next", "0 9 * *"), "five fields"),
    (("next", "0 9 * * *", "--zone", "Mars/Olympus"), "zone"),
    (("next", "0 9 * * *", "--after", "2026-03-08"), "--after"),
    (("next", "0 9 * * *", "--after", "soon"), "--after"),
    (("next", "0 9 * * *", "-n", "0"), "expected"),
    (("next", "0 9 * * *", "--gap", "jump"), "gap"),
    (("next", URL), "QUEUE"),
    (("next", URL, "reports"), "NAME"),
    (("next", URL, "reports", "report", "--zone", "UTC"), "leave the options out"),
    (("next", URL, "reports", "none"), "apportion cron ls"),
    (("ls", URL, "other", "--app", "app:queue"), "--app"),
    (("ls", URL, "--app", "app:nothing"), "APP"),
    (("plan", "nothing:queue"), "APP"),
    (("plan", "app"), "APP"),
    (("pause", URL, "reports", "none"), "none"),
]


@pytest.mark.parametrize(("words", "part"), MISTAKES, ids=[f"{each[0][1][:20]} {each[1]}" for each in MISTAKES])
def test_a_mistake_is_refused_by_name(folder, words, part):
    said("apply", "app:queue", folder=folder)
    assert part in refused(run("cron", *words, folder=folder))


def test_the_doctor_names_each_schedule_with_a_trouble(folder):
    said("apply", "app:queue", folder=folder)
    done = run("doctor", "--store", URL, "--json", folder=folder)
    assert [f"2, this host can evaluate all; zone data {zone_data_version()}"] == [
        each["found"] for each in json.loads(done.stdout)["findings"] if each["subject"] == "schedules"
    ]
    with closing(sqlite3.connect(folder / "work.db", isolation_level=None)) as file:
        file.execute("UPDATE schedule SET zone = 'Mars/Olympus' WHERE name = 'report'")
        file.execute("UPDATE schedule SET jitter_ms = 'soon' WHERE name = 'tidy'")
    done = run("doctor", "--store", URL, "--json", folder=folder)
    found = {each["subject"]: each for each in json.loads(done.stdout)["findings"]}
    report, tidy = found["schedule reports report"], found["schedule reports tidy"]
    assert (1, "warning", "error") == (done.returncode, report["verdict"], tidy["verdict"])
    assert report["found"].startswith("unable: ")
    assert "apportion cron rm" in tidy["advice"]


DAMAGES = [
    *("name = x'00'", "queue = x'00'", "next_slot = 'soon'", "next_slot = 1 << 62", "last_slot = -5", "rule = x'00'"),
    "rule = CAST(x'ff' AS TEXT)",
    *("task = NULL || x'00'", "version = 'v'", "jitter_ms = 1.5", "lane = 9", "arguments = 'text'", "tzdata = x'00'"),
]


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_command_survives_a_damaged_row(folder, damage):
    said("apply", "app:queue", folder=folder)
    said("run-now", URL, "reports", "tidy", folder=folder)
    with closing(sqlite3.connect(folder / "work.db", isolation_level=None)) as file:
        with suppress(sqlite3.IntegrityError):
            file.execute(f"UPDATE schedule SET {damage} WHERE name = 'tidy'")
        file.execute("UPDATE slot_mark SET at = 'once', by = x'00'")
    place = (URL, "reports", "tidy")
    for words in (("ls", URL), ("ls", URL, "--app", "app:queue"), ("history", *place), ("next", *place)):
        for more in ((), ("--json",)):
            assert b"Traceback" not in run("cron", *words, *more, folder=folder).stderr
    for words in (("run-now", *place), ("pause", *place), ("resume", *place), ("plan", "app:queue")):
        run("cron", *words, folder=folder)
    said("apply", "app:queue", folder=folder)
    said("run-now", *place, folder=folder)


def test_the_doctor_makes_no_tables_of_tasks(folder):
    with closing(sqlite3.connect(folder / "groups.db")) as file:
        asyncio.run(_closed("sqlite:///" + str(folder / "groups.db")))
        before = file.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall()
        run("doctor", "--store", "sqlite:///groups.db", folder=folder)
        assert [] != before == file.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall()


async def _closed(url):
    """Make a store without tasks."""
    await (await connect(url)).close()
