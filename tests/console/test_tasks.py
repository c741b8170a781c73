"""`apportion tasks`: an operator enqueues, reads, redrives, pauses and limits; it prints text or one JSON object."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import threading

import pytest

from apportion.work.facade import Queue
from tests.console.grouping import eventually
from tests.console.running import COMMAND, refused, run, written
from tests.console.test_group_top import read

URL = "sqlite:///work.db"


def said(*arguments, folder):
    """Return the text of a command that succeeded."""
    done = run("tasks", *arguments, folder=folder)
    assert (0, b"") == (done.returncode, done.stderr)
    return done.stdout.decode()


def told(*arguments, folder, code=0):
    """Return the JSON of a command."""
    done = run("tasks", *arguments, "--json", folder=folder)
    assert (code, b"") == (done.returncode, done.stderr)
    document = json.loads(done.stdout)
    assert (1, f"tasks {arguments[0]}") == (document.pop("format_version"), document.pop("command"))
    return document


def enqueued(folder, *more, count=1, name="send", to="ann"):
    """Enqueue tasks, and return their ids."""
    arguments = json.dumps({"to": to})
    return [said("enqueue", URL, "mail", name, arguments, *more, folder=folder).strip() for _ in range(count)]


def drained(folder):
    """Run all due tasks: those for nobody fail for the last time."""
    queue = Queue(f"sqlite:///{folder}/work.db", "mail")

    @queue.task(failures=1, keep_result=True)
    def send(to: str) -> str:
        if to == "nobody":
            raise ValueError("no address")
        return f"to {to}"

    async def _drain():
        found = await queue.drain()
        await queue.close()
        return found

    return asyncio.run(_drain())


def states(folder, *ids):
    return [each["state"] for each in told("show", URL, *ids, folder=folder)["tasks"]]


def test_a_task_of_the_command_line_runs_with_its_arguments(tmp_path):
    (task,) = enqueued(tmp_path)
    assert 1 == drained(tmp_path).done
    (shown,) = told("show", URL, task, folder=tmp_path)["tasks"]
    assert ("done", {"to": "ann"}, "to ann", 1) == tuple(
        shown[key] for key in ("state", "arguments", "result", "attempt")
    )


def test_the_numbers_of_a_queue_have_the_promised_names(tmp_path):
    enqueued(tmp_path, count=2)
    enqueued(tmp_path, "--delay", "1h")
    enqueued(tmp_path, to="nobody")
    (queue,) = told("stats", URL, folder=tmp_path)["queues"]
    names = ("ready", "delayed", "claimed", "dead", "cancelled", "workers")
    assert (3, 1, 0, 0, 0, 0) == tuple(queue[name] for name in names)
    assert 0 <= queue["oldest_ready_seconds"] < 30
    drained(tmp_path)
    (queue,) = told("stats", URL, folder=tmp_path)["queues"]
    assert (0, 1, 0, 1, 0, 0) == tuple(queue[name] for name in names)


def test_tables_have_at_most_80_columns(tmp_path):
    enqueued(tmp_path, count=2)
    enqueued(tmp_path, to="nobody")
    drained(tmp_path)
    for command in (("stats", URL), ("ls", URL, "mail", "--state", "dead,done"), ("workers", URL), ("top", URL)):
        text = said(*command, folder=tmp_path)
        assert 80 >= max(map(len, text.splitlines()))
        assert text.splitlines()[-1].startswith(f"tasks {command[0]}: ")


def test_pages_of_the_list_follow_one_another_to_the_end(tmp_path):
    ids = enqueued(tmp_path, count=5)
    seen, more = [], ()
    while True:
        page = told("ls", URL, "mail", "--most", "2", *more, folder=tmp_path)
        seen += [each["id"] for each in page["tasks"]]
        if page["after"] is None:
            break
        more = ("--after", page["after"])
    assert ids == seen
    assert f"There are more: --after {2}\n" in said("ls", URL, "mail", "--most", "2", folder=tmp_path)


def test_a_dead_task_is_found_explained_and_redriven(tmp_path):
    (task,) = enqueued(tmp_path, to="nobody")
    drained(tmp_path)
    assert [task] == [each["id"] for each in told("ls", URL, "mail", "--state", "dead", folder=tmp_path)["tasks"]]
    (why,) = told("why", URL, task, folder=tmp_path)["tasks"]
    assert ("dead", "ValueError: no address", "Mend the cause, then redrive the task.") == tuple(
        why[key] for key in ("cause", "reason", "next_step")
    )
    text = said("why", URL, task, folder=tmp_path)
    assert "  cause      dead\n  reason     ValueError: no address\n  next       Mend the cause, then" in text
    assert "tasks redrive: 1 task ready again\n" == said("redrive", URL, task, folder=tmp_path)
    assert ["ready"] == states(tmp_path, task)


def test_an_act_names_each_task_that_it_did_not_change(tmp_path):
    ready, delayed = *enqueued(tmp_path), *enqueued(tmp_path, "--delay", "1h")
    done = run("tasks", "retry", URL, ready, delayed, "nothing", folder=tmp_path)
    expected = (
        f"tasks retry: 1 task ready now\nnote: {ready} stays as it is: ready\nnote: nothing stays as it is: missing\n"
    )
    assert (1, expected) == (done.returncode, done.stdout.decode())
    assert {"changed": 2, "unchanged": []} == told("cancel", URL, ready, delayed, folder=tmp_path)
    unchanged = [{"id": ready, "state": "cancelled"}]
    assert {"changed": 0, "unchanged": unchanged} == told("cancel", URL, ready, folder=tmp_path, code=1)
    assert {"changed": 1, "unchanged": []} == told("redrive", URL, ready, folder=tmp_path)


def test_an_act_on_a_queue_takes_the_named_states_and_functions(tmp_path):
    enqueued(tmp_path, count=3)
    enqueued(tmp_path, "--delay", "1h", count=2)
    assert 0 == told("cancel", URL, "--queue", "mail", "--name", "other", folder=tmp_path)["changed"]
    assert 2 == told("cancel", URL, "--queue", "mail", "--state", "delayed", folder=tmp_path)["changed"]
    assert 3 == told("cancel", URL, "--queue", "mail", folder=tmp_path)["changed"]
    assert 0 == told("redrive", URL, "--queue", "mail", folder=tmp_path)["changed"]
    assert 5 == told("redrive", URL, "--queue", "mail", "--state", "dead,cancelled", folder=tmp_path)["changed"]
    enqueued(tmp_path, "--delay", "1h", count=2)
    assert 2 == told("retry", URL, "--queue", "mail", folder=tmp_path)["changed"]


def test_a_paused_queue_starts_nothing_and_says_so(tmp_path):
    (task,) = enqueued(tmp_path)
    assert {"queue": "mail", "paused": True} == told("pause", URL, "mail", folder=tmp_path)
    assert "note: mail is paused: apportion tasks resume URL mail\n" in said("stats", URL, folder=tmp_path)
    assert (0, "paused") == (drained(tmp_path).done, told("why", URL, task, folder=tmp_path)["tasks"][0]["cause"])
    assert {"queue": "mail", "paused": False} == told("resume", URL, "mail", folder=tmp_path)
    assert 1 == drained(tmp_path).done


@pytest.mark.parametrize(
    ("options", "limit", "text"),
    [
        (("--running", "5"), (5, None, None), "runs at most 5 at a time"),
        (("--rate", "100/min"), (None, 100, 60.0), "starts at most 100 per 60 s"),
        (("--open", "1", "--rate", "5/10s"), (1, 5, 10.0), "runs at most 1 at a time and starts at most 5 per 10 s"),
        (("--rate", "9/h"), (None, 9, 3600.0), "starts at most 9 per 3600 s"),
        (("--off",), (None, None, None), "has no limit"),
    ],
)
def test_a_limit_stands_as_it_was_written(options, limit, text, tmp_path):
    enqueued(tmp_path)
    assert f"tasks limit: mail {text}\n" == said("limit", URL, "mail", *options, folder=tmp_path)
    (queue,) = told("stats", URL, folder=tmp_path)["queues"]
    assert limit == tuple(queue[key] for key in ("open", "rate", "per_seconds"))
    assert limit == tuple(
        told("limit", URL, "mail", *options, folder=tmp_path)[key] for key in ("open", "rate", "per_seconds")
    )


def test_purged_tasks_are_forgotten_and_others_stay(tmp_path):
    ready, delayed = *enqueued(tmp_path), *enqueued(tmp_path, "--delay", "1h")
    assert "tasks purge: mail has forgotten 1 task: ready\n" == said(
        "purge", URL, "mail", "--state", "ready", folder=tmp_path
    )
    done = run("tasks", "show", URL, ready, delayed, "--json", folder=tmp_path)
    assert (1, ["missing", "delayed"]) == (
        done.returncode,
        [each["state"] for each in json.loads(done.stdout)["tasks"]],
    )


@pytest.mark.parametrize(
    "command",
    [
        "ls {} mial",
        "pause {} mial",
        "resume {} mial",
        "limit {} mial --running 3",
        "resize {} mial 8",
        "purge {} mial --state done",
        "cancel {} --queue mial",
        "retry {} --queue mial",
        "redrive {} --queue mial",
    ],
)
def test_a_queue_without_tasks_is_noted_if_another_has_nearly_its_name(command, tmp_path):
    enqueued(tmp_path)
    words = command.format(URL).split()
    done = run("tasks", *words, folder=tmp_path)
    assert 0 == done.returncode
    assert b"note: queue 'mial' has no tasks and no workers.\nDid you mean 'mail'?\n" == done.stderr
    said(*(each.replace("mial", "letters") for each in words), folder=tmp_path)


def test_a_task_of_a_unique_name_is_kept_or_replaced(tmp_path):
    first = told("enqueue", URL, "mail", "send", '{"to": "ann"}', "--unique", "u", folder=tmp_path)
    second = told("enqueue", URL, "mail", "send", '{"to": "bob"}', "--unique", "u", folder=tmp_path)
    assert (True, False, first["id"]) == (first["created"], second["created"], second["id"])
    assert {"to": "ann"} == told("show", URL, first["id"], folder=tmp_path)["tasks"][0]["arguments"]
    third = ("mail", "send", '{"to": "cat"}', "--unique", "u", "--on-duplicate", "replace")
    assert f"{first['id']}\nnote: a task" in said("enqueue", URL, *third, folder=tmp_path)
    assert {"to": "cat"} == told("show", URL, first["id"], folder=tmp_path)["tasks"][0]["arguments"]


def test_the_url_comes_from_the_variable_also_beside_a_url_in_the_arguments(tmp_path, monkeypatch):
    monkeypatch.setenv("APPORTION_STORE", URL)
    said("enqueue", "mail", "send", '{"to": "http://ann"}', folder=tmp_path)
    monkeypatch.setenv("APPORTION_TASKS_LS_MOST", "1")
    (task,) = told("ls", "mail", folder=tmp_path)["tasks"]
    assert {"to": "http://ann"} == task["arguments"]


def test_options_come_from_the_file_of_the_folder_and_a_misspelt_one_is_an_error(tmp_path):
    enqueued(tmp_path)
    written(tmp_path, "apportion.toml", "[tasks.limit]\nopen = 5\nrate = '100/min'\n")
    assert (5, 100) == tuple(told("limit", URL, "mail", folder=tmp_path)[key] for key in ("open", "rate"))
    written(tmp_path, "apportion.toml", "[tasks.limt]\nopen = 5\n")
    assert "Did you mean 'limit'?" in refused(run("tasks", "limit", URL, "mail", "--off", folder=tmp_path))


@pytest.mark.slow
def test_the_screen_follows_the_queues_until_ctrl_c(tmp_path):
    enqueued(tmp_path)
    ours, theirs = pty.openpty()
    seen = bytearray()
    command = [*COMMAND, "tasks", "top", URL]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    threading.Thread(target=read, args=(ours, seen), daemon=True).start()
    eventually(lambda: b"1 queue, 0 workers" in seen)
    said("enqueue", URL, "letters", "send", folder=tmp_path)
    eventually(lambda: b"2 queues, 0 workers" in seen)
    process.send_signal(signal.SIGINT)
    assert 0 == process.wait(20)


def test_a_store_without_tasks_is_refused(tmp_path):
    assert "does not promise 'tasks'" in refused(
        run("tasks", "enqueue", "redis://127.0.0.1:1", "mail", "send", folder=tmp_path)
    )
