"""`plan`, `apply` and `table`: exit codes, the summary line, and a whole story on files."""

import json

import pytest

from apportion import Table, decode, encode
from tests.console.running import refused, run, written


@pytest.fixture
def story(tmp_path):
    """A folder with a table of three nodes and a plan to add a fourth."""
    assert 0 == run("table", "export", "--nodes", "a,b,c", folder=tmp_path).returncode
    assert 2 == run("plan", "--table", "table.json", "--add", "d", "-o", "plan.json", folder=tmp_path).returncode
    return tmp_path


def test_a_saved_plan_is_applied_once_and_refused_the_second_time(story):
    applied = run("apply", "plan.json", folder=story)
    assert 0 == applied.returncode, applied.stderr
    table = decode((story / "table.json").read_bytes(), Table)
    assert (("a", "b", "c", "d"), 2) == (table.topology.ids, table.topology.number)
    before = (story / "table.json").read_bytes()
    assert "current epoch is 2:" in refused(run("apply", "plan.json", folder=story))
    assert before == (story / "table.json").read_bytes()


def test_an_applied_plan_leaves_nothing_to_do(story):
    run("apply", "plan.json", "--table", "table.json", "-o", "next.json", folder=story)
    assert 0 == run("plan", "--table", "next.json", folder=story).returncode
    moved = run("table", "diff", "table.json", "next.json", "--json", folder=story)
    planned = run("plan", "--table", "table.json", "--add", "d", "--json", folder=story)
    assert json.loads(planned.stdout)["moved_ratio"] == json.loads(moved.stdout)["moved_ratio"]


def test_the_last_line_is_the_summary(story):
    out = run("plan", "--table", "table.json", "--add", "d", folder=story).stdout.decode().splitlines()
    assert out[-1].startswith("plan: 25.00% of the key space moves (bound 25.00%, fair 25.00%), stray 0.00%, ")
    assert any(line.startswith("+ d") for line in out)


@pytest.mark.parametrize(
    ("edits", "mark"),
    [
        (("--add", "e", "--zone", "e=eu/r1", "--weight", "e=2"), "+ e"),
        (("--remove", "c"), "- c"),
        (("--drain", "c"), "~ c"),
        (("--weight", "c=0.5"), "~ c"),
    ],
)
def test_each_kind_of_change_is_marked_and_pending(story, edits, mark):
    process = run("plan", "--table", "table.json", *edits, folder=story)
    assert 2 == process.returncode, process.stderr
    assert any(line.startswith(mark) for line in process.stdout.decode().splitlines())


def test_a_function_is_planned_over_keys(tmp_path):
    written(tmp_path, "keys.txt", "".join(f"k{number}\n" for number in range(1000)))
    arguments = ("plan", "--nodes", "a,b", "--placement", "rendezvous", "--add", "c")
    assert "keys" in refused(run(*arguments, folder=tmp_path))
    process = run(*arguments, "--keys", "keys.txt", "--json", folder=tmp_path)
    document = json.loads(process.stdout)
    assert (False, 0.0) == (document["exact"], document["stray_ratio"])
    assert 0.28 < document["moved_ratio"] < 0.39


def test_a_counted_plan_cannot_be_saved(tmp_path):
    written(tmp_path, "keys.txt", "k\n")
    message = refused(
        run("plan", "--nodes", "a", "--add", "b", "--keys", "keys.txt", "-o", "plan.json", folder=tmp_path)
    )
    assert "exact" in message
    assert not (tmp_path / "plan.json").exists()


def test_a_ring_table_is_planned_from_with_its_vnodes_only(tmp_path):
    run("table", "export", "--nodes", "a,b", "--placement", "ring", "--vnodes", "9", folder=tmp_path)
    assert "--vnodes" in refused(run("plan", "--table", "table.json", "--add", "c", folder=tmp_path))
    process = run("plan", "--table", "table.json", "--vnodes", "9", "--add", "c", folder=tmp_path)
    assert 2 == process.returncode


def test_a_table_goes_to_csv_and_back(story):
    run("table", "export", "--table", "table.json", "--csv", "-o", "t.csv", folder=story)
    run("table", "import", "t.csv", "--nodes", "a,b,c", "-o", "back.json", folder=story)
    old, new = (decode((story / name).read_bytes(), Table) for name in ("table.json", "back.json"))
    assert (old.starts, old.rows) == (new.starts, new.rows)


def test_a_plan_for_another_cluster_is_refused(tmp_path):
    for name in ("one", "two"):
        written(tmp_path, f"{name}.toml", f'cluster = "{name}"\n[[node]]\nid = "a"\n')
        run("table", "export", "--topology", f"{name}.toml", "-o", f"{name}.json", folder=tmp_path)
    run("plan", "--table", "one.json", "--add", "b", "-o", "plan.json", folder=tmp_path)
    refused(run("apply", "plan.json", "--table", "two.json", folder=tmp_path))
    assert "cluster" in refused(run("table", "diff", "one.json", "two.json", folder=tmp_path))


def test_a_table_of_another_kind_is_refused(story):
    written(story, "topology.json", encode(decode((story / "table.json").read_bytes(), Table).topology))
    assert "kind" in refused(run("apply", "plan.json", "--table", "topology.json", folder=story))
    assert "kind" in refused(run("apply", "table.json", folder=story))


def test_a_secret_is_needed_again_and_never_shown(tmp_path):
    written(tmp_path, "key", b"0123456789abcdef")
    written(tmp_path, "other", b"fedcba9876543210")
    hashing = ("--hasher", "siphash-2-4", "--hasher-key-file")
    exported = run("table", "export", "--nodes", "a,b", *hashing, "key", folder=tmp_path)
    assert 0 == exported.returncode, exported.stderr
    assert b"0123456789abcdef" not in exported.stdout + (tmp_path / "table.json").read_bytes()
    assert 0 == run("route", "--table", "table.json", "--hasher-key-file", "key", "k", folder=tmp_path).returncode
    message = refused(run("route", "--table", "table.json", "--hasher-key-file", "other", "k", folder=tmp_path))
    assert "fedcba" not in message
    refused(run("route", "--table", "table.json", "k", folder=tmp_path))


def test_json_lists_every_range_that_moves(story):
    document = json.loads(run("plan", "--table", "table.json", "--add", "d", "--json", folder=story).stdout)
    widths = [int(move["end"], 16) - int(move["start"], 16) for move in document["moves"]]
    assert document["changes"] == len(widths)
    assert document["moved_ratio"] == sum(widths) / 2**64
    assert {"d"} == {move["target"] for move in document["moves"]}


def test_json_lists_every_key_that_moves(tmp_path):
    written(tmp_path, "keys.txt", "".join(f"k{number}\n" for number in range(100)))
    process = run("plan", "--nodes", "a,b", "--add", "c", "--keys", "keys.txt", "--json", folder=tmp_path)
    document = json.loads(process.stdout)
    assert len(document["moves"]) == round(document["moved_ratio"] * 100) > 0
    assert document["moves"][0]["key"].startswith("k")


def test_an_export_does_not_put_a_table_back_to_an_earlier_epoch(story):
    run("apply", "plan.json", folder=story)
    before = (story / "table.json").read_bytes()
    assert "current epoch is 2:" in refused(run("table", "export", "--nodes", "a,b,c", folder=story))
    assert before == (story / "table.json").read_bytes()
    assert 0 == run("table", "export", "--nodes", "a,b,c", "-o", "other.json", folder=story).returncode
