"""`apportion shards recover`, `drain` and `remove`: results in words and as JSON, exit codes, and mistakes."""

import json
import sqlite3
from contextlib import closing

import pytest

from apportion.shards import admin
from tests.console.running import refused, run
from tests.console.test_shards import URL, told
from tests.console.test_shards_moves import left_alone, world

__all__ = ["left_alone", "world"]  # fixtures


def test_a_set_is_recovered_and_told_in_words_and_as_json(world):
    backup = world / "copy.db"
    copy(world / "control.db", backup)
    told("plan", URL, "world", "--drain", "one", "-o", "p.json", folder=world)
    told("apply", URL, "world", "p.json", folder=world)
    copy(backup, world / "control.db")
    run("store", "restored", URL, folder=world)
    checked = told("recover", URL, "world", "--check", folder=world)
    assert (True, 32, []) == (checked["check"], checked["slots"], checked["doubts"])
    ran = run("shards", "recover", URL, "world", folder=world)
    assert b"shards recover: world: 32 slots had another owner than in the table; 1 moves were" in ran.stdout
    assert 0 == told("recover", URL, "world", folder=world)["slots"]


def copy(path, to):
    with closing(sqlite3.connect(path)) as here, closing(sqlite3.connect(to)) as there:
        here.backup(there)


def test_a_slot_without_an_owner_is_an_exit_code_in_words_and_as_json(world):
    with closing(sqlite3.connect(world / "one.db")) as one, one:
        ((slot,),) = one.execute("SELECT min(slot) FROM apportion_slot").fetchall()
        one.execute("UPDATE apportion_slot SET state = 'moved' WHERE slot = ?", (slot,))
    doubt = f"slot {slot}: moved on one, no row on two"
    for words in ([], ["--check"]):
        ran = run("shards", "recover", URL, "world", *words, folder=world)
        said = f"- {doubt}\nshards recover: world: nobody can tell the owner of 1 slots; nothing was written\n"
        assert (1, said) == (ran.returncode, ran.stdout.decode())
        shown = run("shards", "recover", URL, "world", *words, "--json", folder=world)
        assert (1, 1, [doubt], []) == (
            shown.returncode,
            *map(json.loads(shown.stdout).get, ("doubtful", "doubts", "moves")),
        )


def test_a_shard_is_drained_and_removed(world):
    drained = told("drain", URL, "world", "two", folder=world)
    assert (True, 1) == (drained["complete"], len(drained["moves"]))
    run("shards", "clean", URL, "world", "--soak", "0s", folder=world)
    removed = told("remove", URL, "world", "two", folder=world)
    assert [("one", 64)] == [(each["id"], each["slots"]) for each in removed["shards"]]


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_drain_that_another_process_has_ended_is_an_exit_code(left_alone, monkeypatch, words):
    async def half(*_, **__):
        return admin.MovesMade(moves=(), is_whole=False)

    monkeypatch.setattr(admin, "drain", half)
    ran = run("shards", "drain", URL, "world", "one", *words, folder=left_alone)
    assert 1 == ran.returncode
    assert ("paused or aborted the rest" in ran.stdout.decode()) != bool(words)


@pytest.mark.parametrize("name", ["drain", "remove"])
@pytest.mark.parametrize("shard", ["", "six", "a\nb", "'", "x" * 64, "ONE", "zwölf"])
def test_an_id_that_no_shard_has_is_refused(left_alone, name, shard):
    assert "shard is " in refused(run("shards", name, URL, "world", shard, folder=left_alone))
    ran = run("shards", name, URL, "world", shard, "--json", folder=left_alone)
    assert (1, "UnknownOption") == (ran.returncode, json.loads(ran.stderr)["error"])
