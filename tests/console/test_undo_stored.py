"""`apply`, `undo`, `table log` and `plan --to` for a table in a store: each change can be taken back."""

import asyncio
import json

import pytest

import apportion
from apportion import Ring, Table, decode
from tests.console.running import refused, run

NAME = "orders"


@pytest.fixture
def story(tmp_path):
    """A folder with a store that has a table of three nodes."""
    asyncio.run(apportion.publish(f"sqlite:///{tmp_path}/work.db", NAME, Ring(["a", "b", "c"]).table()))
    return tmp_path


def place(folder, number=None):
    """Return the place of the table, or of a kept one."""
    return f"sqlite:///{folder}/work.db#{NAME}" + (f"/{number}" if number else "")


def added(node_id, folder):
    """Add a node, and apply the plan; return the answer."""
    assert 2 == run("plan", "--table", place(folder), "--add", node_id, "-o", "plan.json", folder=folder).returncode
    return asked(folder, "apply", "plan.json", "--table", place(folder))


def asked(folder, *words):
    """Return the answer of a command as JSON."""
    done = run(*words, "--json", folder=folder)
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)


def table_in(folder, number=None):
    """Return the table at its place, as a plan to itself sees it."""
    done = run("table", "export", "--table", place(folder, number), "-o", "out.json", "--force", folder=folder)
    assert 0 == done.returncode, done.stderr
    return decode((folder / "out.json").read_bytes(), Table)


def test_add_apply_and_undo_leave_the_table_as_it_was(story):
    before = asked(story, "plan", "--table", place(story), "--to", place(story))
    change = added("d", story)
    assert change["epoch_before"] != change["epoch_after"]
    undone = asked(story, "undo", "--table", place(story))
    assert (change["epoch_after"], change["epoch_before"]) == (undone["epoch_before"], undone["epoch_after"])
    assert before == asked(story, "plan", "--table", place(story), "--to", place(story))


def test_the_log_names_each_kept_table_and_plan_leads_to_it(story):
    added("d", story)
    added("e", story)
    kept = asked(story, "table", "log", "--table", place(story))["kept"]
    assert ["now", "before", "before"] == [each["state"] for each in kept]
    plan = run("plan", "--table", place(story), "--to", place(story, 1), "-o", "back.json", folder=story)
    assert 2 == plan.returncode, plan.stderr
    first = asked(story, "apply", "back.json", "--table", place(story))
    assert kept[-1]["epoch"] == first["epoch_after"]


@pytest.mark.slow
def test_the_last_ten_tables_stay(story):
    for number in range(13):
        added(f"n{number}", story)
    assert 11 == len(asked(story, "table", "log", "--table", place(story))["kept"])
    for _ in range(10):
        asked(story, "undo", "--table", place(story))
    message = refused(run("undo", "--table", place(story), folder=story))
    assert "expected one with a kept table before it" in message


def test_a_follower_hears_of_an_undo(story):
    async def _follow():
        async with apportion.follow(f"sqlite:///{story}/work.db", NAME) as follower:
            first = follower.epoch
            await asyncio.to_thread(added, "d", story)
            await asyncio.to_thread(asked, story, "undo", "--table", place(story))
            while str(follower.version).rpartition(":")[2] != "3":
                await asyncio.sleep(0.02)
            assert first == follower.epoch

    asyncio.run(asyncio.wait_for(_follow(), 30))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("undo", "--table", "sqlite:///none.db#orders"), "an existing store"),
        (("undo", "--table", "#orders"), "URL#NAME"),
        (("undo", "--table", "sqlite:///work.db#"), "URL#NAME"),
        (("undo", "--table", "sqlite:///work.db#orders/2"), "without the number"),
        (("undo", "--table", "sqlite:///work.db#other"), "table other"),
        (
            ("plan", "--table", "sqlite:///work.db#orders", "--to", "sqlite:///work.db#orders/9"),
            "number of a kept table",
        ),
        (
            ("apply", "plan.json", "--table", "sqlite:///work.db#orders", "--force"),
            "no --force with a table in a store",
        ),
    ],
)
def test_a_mistake_is_named_with_the_way_out(words, told, story):
    assert told in refused(run(*words, folder=story))
