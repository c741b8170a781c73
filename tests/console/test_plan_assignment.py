"""`plan --assignment` and `apply --assignment`: what a change of nodes means for partitions, and carrying it out."""

import json
from dataclasses import replace

import pytest

from apportion import Assignment, decode, encode
from tests.console.running import refused, run, written

PLAN = ("plan", "--assignment", "state.json")


@pytest.fixture
def state(tmp_path):
    """A folder with 120 partitions, two replicas each, on four nodes."""
    options = ("--nodes", "a,b,c,d", "--partitions", "120", "--replicas", "2", "-o", "state.json")
    assert 0 == run("assign", *options, folder=tmp_path).returncode
    return tmp_path


def loaded(folder, name="state.json"):
    return decode((folder / name).read_bytes(), Assignment)


def test_nothing_to_change_is_exit_code_0(state):
    process = run(*PLAN, folder=state)
    assert 0 == process.returncode, process.stderr
    assert "plan: 0 of 240 replicas move (0.00%, the proven minimum: verified)" in process.stdout.decode()


@pytest.mark.parametrize(
    ("edits", "line", "summary"),
    [
        (("--add", "e"), "+ e", "48 of 240 replicas move (20.00%, the proven minimum: verified)"),
        (("--add", "e", "--weight", "e=4"), "+ e", "120 of 240 replicas move (50.00%, the proven minimum: verified)"),
        (("--remove", "b"), "- b", "60 of 240 replicas move (25.00%, the proven minimum: verified)"),
        (("--drain", "b"), "~ b", "60 of 240 replicas move (25.00%, the proven minimum: verified)"),
        (("--weight", "a=0.5"), "~ a", "the proven minimum: verified)"),
        (
            ("--down", "b"),
            "  b",
            "60 of 240 replicas move (25.00%, 0 home moves and 60 repair moves, both the proven minimum: verified)",
        ),
        (("--live", "a,c,d"), "  b", "0 home moves and 60 repair moves"),
        (("--to", "nodes.toml"), "+ e", "the proven minimum: verified)"),
    ],
)
def test_each_kind_of_change_is_pending_and_proven(state, edits, line, summary):
    written(state, "nodes.toml", "".join(f'[[node]]\nid = "{node_id}"\n' for node_id in "abcde"))
    process = run(*PLAN, *edits, folder=state)
    assert 2 == process.returncode, process.stderr
    lines = process.stdout.decode().splitlines()
    assert any(each.startswith(line) for each in lines)
    assert lines[-1].startswith("plan: ")
    assert summary in lines[-1]


def test_a_plan_is_applied_once_and_refused_the_second_time(state):
    assert 2 == run(*PLAN, "--add", "e", "-o", "next.json", folder=state).returncode
    applied = run("apply", "next.json", "--assignment", "state.json", folder=state)
    assert 0 == applied.returncode, applied.stderr
    assert applied.stdout.decode().startswith("applied: state.json is at epoch 2:")
    assert (state / "next.json").read_bytes() == (state / "state.json").read_bytes()
    message = refused(run("apply", "next.json", "--assignment", "state.json", folder=state))
    assert "Plan again" in message or "plan again" in message
    assert 0 == run(*PLAN, folder=state).returncode


def test_a_plan_goes_elsewhere_with_output(state):
    before = (state / "state.json").read_bytes()
    run(*PLAN, "--down", "a", "-o", "next.json", folder=state)
    process = run("apply", "next.json", "--assignment", "state.json", "-o", "result.json", "--json", folder=state)
    assert "result.json" == json.loads(process.stdout)["assignment"]
    assert before == (state / "state.json").read_bytes()
    assert loaded(state, "next.json") == loaded(state, "result.json")


def test_two_saved_assignments_are_compared(state):
    run(*PLAN, "--add", "e", "-o", "next.json", folder=state)
    there = run(*PLAN, "--to", "next.json", folder=state)
    assert (2, run(*PLAN, "--add", "e", folder=state).stdout) == (there.returncode, there.stdout)
    back = run("plan", "--assignment", "next.json", "--to", "state.json", folder=state)
    assert "48 of 240 replicas move (20.00%, not proven: no certificate of this step)" in back.stdout.decode()
    assert 0 == run(*PLAN, "--to", "state.json", folder=state).returncode


def test_a_forged_certificate_is_not_believed(state):
    run(*PLAN, "--add", "e", "-o", "next.json", folder=state)
    after = loaded(state, "next.json")
    home = replace(after.certificate.home, moves=0)
    written(state, "forged.json", encode(replace(after, certificate=replace(after.certificate, home=home))))
    for command in ((*PLAN, "--to", "forged.json"), ("apply", "forged.json", "--assignment", "state.json")):
        assert "moves of the certificate is '0', expected 48" in refused(run(*command, folder=state)).replace(
            "'48'", "48"
        )


def test_what_has_no_certificate_is_not_applied(state):
    written(state, "plain.json", encode(replace(loaded(state), certificate=None)))
    message = refused(run("apply", "plain.json", "--assignment", "state.json", folder=state))
    assert "no certificate" in message
    run("assign", "--nodes", "a,b", "--partitions", "9", "-o", "first.json", folder=state)
    assert "a first assignment" in refused(run("apply", "first.json", "--assignment", "state.json", folder=state))


def test_json_lists_every_move_with_its_partition(state):
    process = run(*PLAN, "--remove", "b", "--json", folder=state)
    document = json.loads(process.stdout)
    assert (2, "plan", True, 60) == (process.returncode, document["command"], document["verified"], document["moved"])
    assert {"b"} == {move["source"] for move in document["moves"]}
    node = next(each for each in document["nodes"] if each["node"] == "b")
    assert ("b", 0, 60) == (node["node"], node["gains"], node["gives"])
    assert (60, 0, 30, 0) == tuple(
        node[f"{name}_{when}"] for name in ("replicas", "leads") for when in ("before", "after")
    )
    held = {name for name, owners in loaded(state).preference_lists.items() if "b" in owners}
    assert held == {move["partition"] for move in document["moves"]}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--nodes", "a"), "--assignment is 'state.json', expected no nodes, placement or keys with it"),
        (("--keys", "state.json"), "no nodes, placement or keys with it"),
        (("--slots", "64"), "no nodes, placement or keys with it"),
        (("--to", "state.json", "--add", "e"), "--to is 'state.json'"),
        (("--to", "state.json", "--down", "a"), "--to is 'state.json'"),
        (("--to", "state.json", "-o", "x.json"), "no --output"),
        (("--remove", "a,b,c"), "2 replicas wanted"),
        (("--to", "state.json", "--spread", "strict"), "--to is 'state.json'"),
        (("-o", "state.json"), "--output is 'state.json', expected a file that the command does not read"),
        (("-o", "./state.json"), "expected a file that the command does not read"),
        (("--remove", "a", "--drain", "a"), "--drain is 'a', expected no --remove of the same node with it"),
        (("--remove", "a", "--weight", "a=2"), "--weight is 'a', expected no --remove of the same node with it"),
        (("--remove", "a", "--down", "b,a"), "--down is 'a', expected no --remove of the same node with it"),
        (("--remove", "a", "--live", "a,b,c"), "--live is 'a', expected no --remove of the same node with it"),
        (("--down", "e"), "node id is 'e'"),
        (("--add", "a"), "'a'"),
    ],
)
def test_a_mistake_is_named(options, says, state):
    assert says in refused(run(*PLAN, *options, folder=state))


def test_what_is_no_assignment_is_refused(state):
    run("table", "export", "--nodes", "a,b", folder=state)
    assert "kind is 'table', expected 'assignment'" in refused(run("plan", "--assignment", "table.json", folder=state))
    assert "kind is 'table'" in refused(run("apply", "table.json", "--assignment", "state.json", folder=state))
    assert "kind is 'table'" in refused(run(*PLAN, "--to", "table.json", folder=state))
    both = run("apply", "next.json", "--assignment", "state.json", "--table", "table.json", folder=state)
    assert "no --assignment with it" in refused(both)


def test_a_node_that_is_down_can_be_removed_for_good(state):
    run(*PLAN, "--down", "b", "-o", "next.json", folder=state)
    process = run("plan", "--assignment", "next.json", "--remove", "b", folder=state)
    assert (2, "- b") == (process.returncode, process.stdout.decode().splitlines()[3][:3])
    proven = "60 home moves and 0 repair moves, both the proven minimum: verified"
    unproven = "the moves from the last repair to this one are not proven"
    assert f"{proven}; {unproven}" in process.stdout.decode()


def test_an_outage_is_no_matter_of_placements(tmp_path):
    assert "--assignment" in refused(run("plan", "--nodes", "a,b", "--down", "b", folder=tmp_path))
    assert "--assignment" in refused(run("plan", "--nodes", "a,b", "--spread", "strict", folder=tmp_path))


@pytest.mark.parametrize("target", ["notes.txt", "other.json", "table.json"])
def test_a_plan_is_saved_over_nothing_but_a_plan_from_the_same_assignment(target, state):
    run("table", "export", "--nodes", "a,b", folder=state)
    run("assign", "--nodes", "a,b", "--partitions", "9", "-o", "other.json", folder=state)
    written(state, "notes.txt", "do not lose")
    before = (state / target).read_bytes()
    assert "a free name" in refused(run(*PLAN, "--add", "e", "-o", target, folder=state))
    assert before == (state / target).read_bytes()
    assert 2 == run(*PLAN, "--add", "e", "-o", "next.json", folder=state).returncode
    assert 2 == run(*PLAN, "--down", "b", "-o", "next.json", folder=state).returncode
    run("apply", "next.json", "--assignment", "state.json", folder=state)
    assert 2 == run(*PLAN, "--live", "a,b,c,d", "-o", "next.json", folder=state).returncode


def test_too_few_zones_are_shared_where_the_plan_says_so(tmp_path):
    nodes = "".join(f'[[node]]\nid = "{zone}{number}"\nzone = ["{zone}"]\n' for zone in "xyz" for number in (1, 2))
    written(tmp_path, "nodes.toml", nodes)
    options = ("--topology", "nodes.toml", "--partitions", "12", "--replicas", "3")
    run("assign", *options, "-o", "state.json", folder=tmp_path)
    message = refused(run(*PLAN, "--down", "x1,x2", folder=tmp_path))
    assert "relax the rule with --spread best-effort." in message
    process = run(*PLAN, "--down", "x1,x2", "--spread", "best-effort", "-o", "next.json", folder=tmp_path)
    assert 2 == process.returncode, process.stderr
    assert ", 12 degraded, 2 down, " in process.stdout.decode()
    assert 0 == run("apply", "next.json", "--assignment", "state.json", folder=tmp_path).returncode
    kept = run(*PLAN, "--down", "x1,x2", folder=tmp_path)
    assert 0 == kept.returncode, kept.stderr


def test_an_assignment_is_applied_to_an_assignment_alone(state):
    run(*PLAN, "--add", "e", "-o", "next.json", folder=state)
    message = refused(run("apply", "next.json", folder=state))
    assert "Pass --assignment FILE" in message
