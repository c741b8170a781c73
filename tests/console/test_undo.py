"""`undo`, `table log` and `plan --to` a saved table: each change can be taken back, and nothing is lost meanwhile."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from apportion import Ring, encode
from tests.console.running import COMMAND, refused, run, written


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A folder with a table of three nodes and a plan to add a fourth, made once."""
    folder = tmp_path_factory.mktemp("told")
    assert 0 == run("table", "export", "--nodes", "a,b,c", folder=folder).returncode
    add("d", folder)
    return folder


@pytest.fixture
def story(told, tmp_path):
    """A copy of that folder for one test."""
    return Path(shutil.copytree(told, tmp_path, dirs_exist_ok=True))


def add(node_id, folder):
    assert 2 == run("plan", "--table", "table.json", "--add", node_id, "-o", "plan.json", folder=folder).returncode


def applied(folder, *options):
    done = run("apply", "plan.json", *options, folder=folder)
    assert 0 == done.returncode, done.stderr


def undone(folder, *options):
    done = run("undo", *options, "--json", folder=folder)
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)


def table_in(folder):
    return (folder / "table.json").read_bytes()


def log_of(folder, *options):
    done = run("table", "log", *options, "--json", folder=folder)
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)["kept"]


def states(folder):
    return [(each["state"], each["change"]) for each in log_of(folder)]


def test_add_apply_and_undo_leave_the_table_byte_for_byte(story):
    before = table_in(story)
    applied(story)
    assert before != table_in(story)
    assert 0.25 == undone(story)["moved_ratio"]
    assert before == table_in(story)


def test_a_second_undo_goes_back_further_and_the_first_table_is_the_end(story):
    tables = [table_in(story)]
    for node_id in ("d", "e"):
        add(node_id, story)
        applied(story)
        tables.append(table_in(story))
    for table in reversed(tables[:-1]):
        undone(story)
        assert table == table_in(story)
    message = refused(run("undo", folder=story))
    assert "--table is 'table.json', expected a file with a kept earlier version.\nNothing was changed" in message
    assert tables[0] == table_in(story)


def test_an_undone_plan_can_be_applied_again_and_undone_again(story):
    before = table_in(story)
    for _ in range(3):
        applied(story)
        undone(story)
    assert before == table_in(story)
    assert [("undone", "+d"), ("now", "")] == states(story)


def test_a_plan_that_is_applied_again_keeps_the_way_to_the_next_table(story):
    for node_id in ("d", "e"):
        add(node_id, story)
        applied(story)
        shutil.copy(story / "plan.json", story / f"{node_id}.plan")
    undone(story)
    undone(story)
    assert 0 == run("apply", "d.plan", folder=story).returncode
    assert [("undone", "+e"), ("now", "+d"), ("before", "")] == states(story)


def test_a_change_after_an_undo_loses_no_table(story):
    applied(story)
    undone(story)
    add("e", story)
    applied(story)
    assert [("now", "+e"), ("undone", "+d"), ("before", "")] == states(story)
    undone_file = story / log_of(story)[1]["file"]
    wanted = undone_file.read_bytes()
    assert 2 == run("plan", "--table", "table.json", "--to", undone_file, "-o", "way.json", folder=story).returncode
    assert 0 == run("apply", "way.json", folder=story).returncode
    assert wanted == table_in(story)
    assert ("now", "+d -e") == states(story)[0]


@pytest.mark.slow
def test_the_last_ten_tables_stay_and_each_can_be_reached(story):
    tables = [table_in(story)]
    for number in range(12):
        add(f"n{number:02}", story)
        applied(story)
        tables.append(table_in(story))
    assert 11 == len(list((story / "table.json.kept").iterdir()))
    for table in tables[11:1:-1]:
        undone(story)
        assert table == table_in(story)
    refused(run("undo", folder=story))


@pytest.mark.slow
def test_a_change_after_ten_undos_can_be_undone(story):
    first = table_in(story)
    for number in range(10):
        add(f"n{number:02}", story)
        applied(story)
    for _ in range(10):
        undone(story)
    assert first == table_in(story)
    add("other", story)
    applied(story)
    undone(story)
    assert first == table_in(story)


def test_the_remains_of_a_killed_writer_go_with_the_next_change_and_notes_stay(story):
    applied(story)
    folder = story / "table.json.kept"
    remains = written(folder, ".0003-after-0002-20261124T001503Z.json.ab12cd_9", "cut")
    note = written(folder, "notes.txt", "mine")
    add("e", story)
    applied(story)
    assert (False, "mine") == (remains.exists(), note.read_text())
    assert [("now", "+e"), ("before", "+d"), ("before", "")] == states(story)


def test_the_log_tells_when_which_change_and_how_much_moved(story):
    applied(story)
    newest, oldest = log_of(story)
    assert ("now", "+d", 0.25) == tuple(newest[each] for each in ("state", "change", "moved_ratio"))
    assert ("before", "", None) == tuple(oldest[each] for each in ("state", "change", "moved_ratio"))
    assert oldest["since"] <= newest["since"]
    assert table_in(story) == (story / newest["file"]).read_bytes()
    printed = run("table", "log", folder=story).stdout.decode()
    assert "now   2:" in printed
    assert printed.endswith("table log: table.json has 1 earlier and 0 undone; plan --to FILE leads to each of them\n")


def test_a_table_that_came_by_another_way_is_kept_too(story):
    applied(story)
    other = encode(Ring(["x", "y"]).table())
    written(story, "table.json", other)
    assert ["now", "before", "before"] == [state for state, _ in states(story)]
    undone(story)
    assert ["undone", "now", "before"] == [state for state, _ in states(story)]
    assert other == (story / log_of(story)[0]["file"]).read_bytes()


def test_a_table_that_an_export_replaces_comes_back(story):
    before = table_in(story)
    assert 0 == run("table", "export", "--nodes", "x,y", folder=story).returncode
    undone(story)
    assert before == table_in(story)


def test_an_assignment_is_undone_as_a_table_is(tmp_path):
    options = ("--nodes", "a,b,c", "--partitions", "60", "-o", "state.json")
    assert 0 == run("assign", *options, folder=tmp_path).returncode
    before = (tmp_path / "state.json").read_bytes()
    run("plan", "--assignment", "state.json", "--add", "d", "-o", "plan.json", folder=tmp_path)
    applied(tmp_path, "--assignment", "state.json")
    assert ["+d", ""] == [each["change"] for each in log_of(tmp_path, "--assignment", "state.json")]
    assert 0.25 == undone(tmp_path, "--assignment", "state.json")["moved_ratio"]
    assert before == (tmp_path / "state.json").read_bytes()


@pytest.mark.parametrize("command", [("undo",), ("table", "log")])
def test_a_file_that_cannot_be_undone_is_refused_with_the_next_step(command, story):
    assert "one of the two" in refused(run(*command, "--table", "t", "--assignment", "a", folder=story)).lower()
    assert "no such file" in refused(run(*command, "--table", "nowhere", folder=story))
    assert "plan.json: snapshot kind is 'plan'" in refused(run("undo", "--table", "plan.json", folder=story))


def test_a_damaged_kept_table_costs_itself_alone(story):
    before = table_in(story)
    for node_id in ("d", "e"):
        add(node_id, story)
        applied(story)
    now = table_in(story)
    middle = story / log_of(story)[1]["file"]
    middle.write_bytes(middle.read_bytes()[:-9])
    message = refused(run("undo", folder=story))
    assert f"{middle.name}: checksum is" in message
    assert now == table_in(story)
    newest, damaged, oldest = log_of(story)
    assert damaged["change"].startswith("damaged: checksum is")
    assert before == (story / oldest["file"]).read_bytes()
    assert now == (story / newest["file"]).read_bytes()


def test_a_damaged_table_is_refused_and_the_kept_ones_are_named(story):
    applied(story)
    written(story, "table.json", table_in(story)[:-9])
    message = refused(run("undo", folder=story))
    assert "table.json: checksum is" in message
    assert "Earlier files are in table.json.kept. Copy one of them over this file." in message


def test_a_table_of_a_later_release_is_refused_and_stays(story):
    applied(story)
    later = table_in(story).replace(b'"format_version":2', b'"format_version":3')
    written(story, "table.json", later)
    for command in (
        ["undo"],
        ["table", "log"],
        ["apply", "plan.json"],
        ["plan", "--table", "table.json", "--add", "e"],
    ):
        message = refused(run(*command, folder=story))
        assert "format_version is 3, expected 2" in message
        assert "Read it with the release that wrote it, or upgrade." in message
    assert later == table_in(story)


def test_kept_tables_are_as_private_as_the_table(story):
    (story / "table.json").chmod(0o600)
    applied(story)
    folder = story / "table.json.kept"
    modes = {stat.S_IMODE(each.stat().st_mode) for each in (story / "table.json", *folder.iterdir())}
    assert ({0o600}, 0o700) == (modes, stat.S_IMODE(folder.stat().st_mode))


def test_a_link_has_its_kept_tables_beside_the_file_behind_it(story):
    (story / "real").mkdir()
    (story / "table.json").rename(story / "real" / "t.json")
    (story / "table.json").symlink_to("real/t.json")
    before = table_in(story)
    applied(story)
    assert 2 == len(list((story / "real" / "t.json.kept").iterdir()))
    undone(story, "--table", "real/t.json")
    assert (before, True) == (table_in(story), (story / "table.json").is_symlink())


def test_a_file_in_the_place_of_the_kept_ones_is_refused_before_anything_changes(story):
    written(story, "table.json.kept", "mine")
    before = table_in(story)
    assert "folder of kept files is 'table.json.kept'" in refused(run("apply", "plan.json", folder=story))
    assert (before, "mine") == (table_in(story), (story / "table.json.kept").read_text())


def test_the_plan_to_a_saved_table_leads_to_it_byte_for_byte(story):
    shutil.copy(story / "table.json", story / "saved.json")
    applied(story)
    done = run("plan", "--table", "table.json", "--to", "saved.json", "-o", "back.json", folder=story)
    assert 2 == done.returncode, done.stderr
    assert "plan: 25.00% of the key space moves" in done.stdout.decode()
    assert 0 == run("apply", "back.json", folder=story).returncode
    assert (story / "saved.json").read_bytes() == table_in(story)
    assert 0 == run("plan", "--table", "table.json", "--to", "saved.json", folder=story).returncode


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--to", "saved.json", "--add", "e"), "--to is 'saved.json', expected no change of nodes"),
        (("--to", "saved.json", "--keys", "keys"), "--to is 'saved.json', expected no change of nodes and no keys"),
        (("--to", "plan.json"), "snapshot kind is 'plan', expected 'table'"),
        (("--to", "other.json"), "hasher is 'xxh64"),
        (("--to", "saved.json", "--vnodes", "3"), "--vnodes is '3', expected no value, with --table"),
    ],
)
def test_a_saved_table_stands_alone(options, says, story):
    shutil.copy(story / "table.json", story / "saved.json")
    written(story, "keys", "k\n")
    other = Ring(["a"], hasher="xxh64").table()
    written(story, "other.json", encode(other))
    assert says in refused(run("plan", "--table", "table.json", *options, folder=story))


# Kills a command before and after each of its calls of the system, each time in a new copy of a folder.
KILLED = """
import os, shutil, signal, sys
from apportion.console.main import main
source, *arguments = sys.argv[1:]
CALLS = ("open", "fsync", "fchmod", "chmod", "replace", "mkdir", "unlink", "close")

def dies_at(instant):
    count = 0
    def hooked(call):
        def inner(*values, **named):
            nonlocal count
            for act in (lambda: None, lambda: call(*values, **named)):
                result = act()
                count += 1
                if count == instant:
                    os.kill(os.getpid(), signal.SIGKILL)
            return result
        return inner
    for name in CALLS:
        setattr(os, name, hooked(getattr(os, name)))

main(["route", "--nodes", "a", "k"])
instant, status = 0, 1
while status:
    instant += 1
    folder = f"{source}-{instant:03}"
    shutil.copytree(source, folder)
    if not (child := os.fork()):
        os.chdir(folder)
        dies_at(instant)
        os._exit(main(arguments))
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "command"), [("", ("apply", "plan.json")), ("cd", ("apply", "plan.json")), ("cd", ("undo",))]
)
def test_a_kill_at_any_instant_leaves_the_old_table_or_the_new_one_and_all_kept_ones(before, command, tmp_path):
    source = tmp_path / "s"
    source.mkdir()
    assert 0 == run("table", "export", "--nodes", "a,b", "--slots", "64", folder=source).returncode
    for node_id in before:
        add(node_id, source)
        applied(source)
    add("e", source)
    epochs = {each["epoch"] for each in log_of(source)}
    old, kept = table_in(source), set(kept_in(source))
    done = subprocess.run(
        [sys.executable, "-c", KILLED, source, *command], capture_output=True, timeout=300, check=False
    )
    assert 0 == done.returncode, done.stderr.decode()
    *killed, whole = sorted(path for path in tmp_path.iterdir() if path != source)
    assert len(killed) > 20
    new = table_in(whole)
    assert {old, new} == {table_in(folder) for folder in killed}
    for folder in killed:
        left = set(kept_in(folder))
        assert kept <= left <= {*kept, old, new}
        assert old in {*left, table_in(folder)}
        if left and table_in(folder) != kept_in(folder)[0]:
            assert undone(folder)["epoch_after"] in epochs
            assert table_in(folder) in left


def kept_in(folder):
    """Return the kept tables, the oldest first."""
    return [path.read_bytes() for path in sorted((folder / "table.json.kept").glob("0*.json"))]


@pytest.mark.parametrize("call", ["fsync", "fchmod", "replace", "mkdir", "open"])
def test_an_error_at_any_call_is_told_and_leaves_the_table_whole(call, story, monkeypatch):
    old, real, instant = table_in(story), getattr(os, call), 0
    while True:
        instant += 1
        calls = 0

        def failing(*values, instant=instant, **named):
            nonlocal calls
            writes = call != "open" or "table.json." in str(values[0])
            calls += writes
            if writes and calls == instant:
                raise OSError(5, "input/output error")
            return real(*values, **named)

        monkeypatch.setattr(os, call, failing)
        done = run("apply", "plan.json", folder=story)
        monkeypatch.setattr(os, call, real)
        if calls < instant:
            break
        message = refused(done)
        assert "input/output error" in message
        is_new = "The new file is in place" in message and "folder is '" in message
        assert is_new or old == table_in(story)
        assert not list(story.rglob(".*"))
        shutil.rmtree(story / "table.json.kept", ignore_errors=True)
        written(story, "table.json", old)
    assert instant > 1
    assert 0 == done.returncode


@pytest.mark.slow
def test_of_applies_at_once_one_is_done_and_no_table_is_lost(story):
    old = table_in(story)
    for node_id in "wxyz":
        run("plan", "--table", "table.json", "--add", node_id, "-o", f"{node_id}.plan", folder=story)
    applies = [
        subprocess.Popen(
            [*COMMAND, "apply", f"{node_id}.plan"], cwd=story, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for node_id in "wxyz"
    ]
    codes = sorted((each.communicate(timeout=60), each.returncode)[1] for each in applies)
    assert [0, 1, 1, 1] == codes
    assert {old, table_in(story)} == {path.read_bytes() for path in (story / "table.json.kept").iterdir()}
    undone(story)
    assert old == table_in(story)
