"""`assign`: partitions from a count or a file, the next assignment from a saved one, and every mistake named."""

import json

import pytest

from apportion import Assignment, Topology, balance, decode, encode
from apportion.console.options.outage import Outage
from apportion.console.options.partitions import PartitionOptions
from apportion.errors import BadSnapshot
from tests.console.running import refused, run, written

NODES = ("--nodes", "a,b,c,d")


def last_line(process):
    assert 0 == process.returncode, process.stderr
    return process.stdout.decode().splitlines()[-1]


def loaded(folder, name="state.json"):
    return decode((folder / name).read_bytes(), Assignment)


@pytest.fixture
def state(tmp_path):
    """A folder with 120 partitions, two replicas each, on four nodes."""
    options = (*NODES, "--partitions", "120", "--replicas", "2", "-o", "state.json")
    assert 0 == run("assign", *options, folder=tmp_path).returncode
    return tmp_path


def test_what_is_saved_is_what_the_library_makes(state):
    expected = balance.optimal(120, 2, Topology(["a", "b", "c", "d"]))
    assert (expected, expected.certificate) == (loaded(state), loaded(state).certificate)


def test_a_first_assignment_says_who_holds_how_much(tmp_path):
    process = run("assign", *NODES, "--partitions", "120", "--replicas", "2", folder=tmp_path)
    assert last_line(process).startswith(
        "assignment: 240 replicas of 120 partitions placed (verified), loads within 0.00 of their shares, "
        "4 nodes, epoch 1:"
    )
    assert any(line.split() == ["a", "1", "60", "30"] for line in process.stdout.decode().splitlines())


def test_one_replica_is_the_default(tmp_path):
    assert "assignment: 8 replicas of 8 " in last_line(run("assign", *NODES, "--partitions", "8", folder=tmp_path))


def test_what_is_left_out_stays_as_it_was(state):
    process = run("assign", "--previous", "state.json", "-o", "next.json", folder=state)
    assert "0 of 240 replicas move (0.00%, the proven minimum: verified), 0 leaders change" in last_line(process)
    assert loaded(state) == loaded(state, "next.json")


def test_an_expansion_moves_the_proven_minimum(state):
    process = run("assign", "--previous", "state.json", "--nodes", "a,b,c,d,e", "-o", "state.json", folder=state)
    assert last_line(process).startswith(
        "assignment: 48 of 240 replicas move (20.00%, the proven minimum: verified), 24 leaders change, "
        "loads within 0.00 of their shares, 4 -> 5 nodes, epoch 1:"
    )
    assert (2, 48) == (loaded(state).topology.number, loaded(state).loads["e"])


def test_an_outage_keeps_home_and_a_return_restores_it(state):
    before = loaded(state)
    outage = run("assign", "--previous", "state.json", "--down", "b", "-o", "state.json", folder=state)
    assert (
        "60 of 240 replicas move (25.00%, 0 home moves and 60 repair moves, both the proven minimum: verified)"
        in last_line(outage)
    )
    assert ", 1 down, " in last_line(outage)
    assert (("b",), before.rows, 0) == (loaded(state).down, loaded(state).home, loaded(state).loads["b"])
    assert any(line.rstrip().endswith("up -> down") for line in outage.stdout.decode().splitlines())
    back = run("assign", "--previous", "state.json", "-o", "state.json", folder=state)
    assert "60 of 240 replicas move" in last_line(back)
    assert before == loaded(state)


def test_live_and_down_say_the_same_thing(state):
    left = run("assign", "--previous", "state.json", "--live", "a,c", "--live", "d", folder=state)
    assert left.stdout == run("assign", "--previous", "state.json", "--down", "b", folder=state).stdout


def test_ids_come_from_lines_and_sizes_from_columns(tmp_path):
    written(tmp_path, "ids", "orders-1\r\norders-2\npäyments\n")
    run("assign", *NODES, "--partitions", "ids", "-o", "state.json", folder=tmp_path)
    assert {"orders-1", "orders-2", "päyments"} == set(loaded(tmp_path).preference_lists)
    written(tmp_path, "ids.csv", 'bytes,partition\n5,"a,b"\n70,z\n')
    columns = ("--column", "partition", "--size-column", "bytes")
    run("assign", *NODES, "--partitions", "ids.csv", *columns, "-o", "sized.json", folder=tmp_path)
    assert (5, 70) == (loaded(tmp_path, "sized.json").size("a,b"), loaded(tmp_path, "sized.json").size("z"))
    run("assign", "--previous", "sized.json", "--down", "a", "-o", "next.json", folder=tmp_path)
    assert (5, 70) == (loaded(tmp_path, "next.json").size("a,b"), loaded(tmp_path, "next.json").size("z"))


def test_zones_and_the_rule_are_kept(tmp_path):
    nodes = "".join(
        f'[[node]]\nid = "{zone}{number}"\nzone = ["{zone}", "r{number}"]\n' for zone in "xy" for number in (1, 2)
    )
    written(tmp_path, "nodes.toml", nodes)
    options = ("--topology", "nodes.toml", "--partitions", "10", "--replicas", "3", "--spread-level", "0")
    message = refused(run("assign", *options, folder=tmp_path))
    assert "in distinct zones, 2 eligible" in message
    assert "relax the rule with --spread best-effort." in message
    process = run("assign", *options, "--spread", "best-effort", "-o", "state.json", folder=tmp_path)
    assert ", 10 degraded, 4 nodes" in last_line(process)
    assert "3 replicas in 2 zones" in process.stdout.decode()
    again = run("assign", "--previous", "state.json", folder=tmp_path)
    assert ", 10 degraded, 4 -> 4 nodes" in last_line(again)


def test_json_lists_every_owner_and_every_move(state):
    process = run("assign", "--previous", "state.json", "--down", "b", "--json", "-o", "next.json", folder=state)
    document = json.loads(process.stdout)
    assert (1, "assign", True, True) == tuple(
        document[name] for name in ("format_version", "command", "pending", "verified")
    )
    assert (60, 0, 60, ["b"]) == tuple(document[name] for name in ("moved", "home_moves", "repair_moves", "down"))
    assert {name: list(owners) for name, owners in loaded(state, "next.json").preference_lists.items()} == document[
        "assignment"
    ]
    assert {"b"} == {move["source"] for move in document["moves"]}
    assert 60 == len(document["moves"])


@pytest.mark.parametrize(
    ("options", "target", "says"),
    [
        (
            (*NODES, "--partitions", "3"),
            "state.json",
            "is not the predecessor of the new one.\nChoose another name, pass --previous state",
        ),
        (("--topology", "shop.toml", "--partitions", "3"), "state.json", "is not the predecessor of the new one"),
        (("--previous", "state.json", "--down", "a"), "other.json", "the assignment there, of epoch 1:"),
        (
            ("--topology", "shop.toml", "--partitions", "3"),
            "shop.toml",
            "--output is 'shop.toml', expected a file that",
        ),
        (
            (*NODES, "--partitions", "ids"),
            "ids",
            "expected a file that the command does not read.\nChoose another name, or pass --force",
        ),
        ((*NODES, "--partitions", "ids"), "table.json", "or a free name, because the file there is a table"),
    ],
)
def test_what_is_not_the_assignment_before_is_not_written_over(options, target, says, state):
    written(state, "shop.toml", 'cluster = "shop"\n[[node]]\nid = "a"\n')
    written(state, "ids", "p1\np2\n")
    run("table", "export", "--nodes", "a,b", folder=state)
    run("assign", "--previous", "state.json", "--down", "b", "-o", "other.json", folder=state)
    before = (state / target).read_bytes()
    assert says in refused(run("assign", *options, "-o", target, folder=state))
    assert before == (state / target).read_bytes()


def test_the_same_assignment_is_saved_again_and_an_empty_file_is_filled(state):
    again = (*NODES, "--partitions", "120", "--replicas", "2", "-o", "state.json")
    assert 0 == run("assign", *again, folder=state).returncode
    written(state, "empty.json", "")
    assert 0 == run("assign", "--previous", "state.json", "--down", "b", "-o", "empty.json", folder=state).returncode
    assert ("b",) == loaded(state, "empty.json").down


@pytest.mark.slow
def test_ids_come_from_standard_input_and_after_a_byte_order_mark(tmp_path):
    listed = run("assign", *NODES, "--partitions", "-", "--json", folder=tmp_path, stdin=b"\xef\xbb\xbfp1\np2\n")
    assert {"p1", "p2"} == set(json.loads(listed.stdout)["assignment"])
    written(tmp_path, "ids.csv", b"\xef\xbb\xbfpartition,bytes\np1,5\n")
    columns = ("--column", "partition", "--size-column", "bytes")
    run("assign", *NODES, "--partitions", "ids.csv", *columns, "-o", "state.json", folder=tmp_path)
    assert 5 == loaded(tmp_path).size("p1")
    message = refused(run("assign", *NODES, "--partitions", "-", folder=tmp_path, stdin=b""))
    assert "--partitions is '-', expected a file that is not empty" in message


def test_one_leader_changes_and_two_change(tmp_path):
    run("assign", "--nodes", "a,b", "--partitions", "2", "-o", "state.json", folder=tmp_path)
    process = run("assign", "--previous", "state.json", "--down", "b", folder=tmp_path)
    assert "), 1 leader changes, " in last_line(process)


def test_nodes_name_no_cluster(tmp_path):
    written(tmp_path, "shop.toml", 'cluster = "shop"\n[[node]]\nid = "a"\n')
    run("assign", "--topology", "shop.toml", "--partitions", "3", "-o", "state.json", folder=tmp_path)
    message = refused(run("assign", "--previous", "state.json", "--nodes", "a,b", folder=tmp_path))
    assert "--nodes names no cluster and --previous has cluster 'shop'" in message
    assert "Pass --topology FILE" in message


def test_the_return_from_an_outage_says_what_is_not_proven(state):
    run("assign", "--previous", "state.json", "--down", "b", "-o", "state.json", folder=state)
    back = last_line(run("assign", "--previous", "state.json", folder=state))
    assert (
        "60 of 240 replicas move (25.00%, 0 home moves and 0 repair moves, both the proven minimum: verified; "
        "the moves from the last repair to this one are not proven), "
    ) in back


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not empty"),
        ("\n", "line 1 of --partitions: partition id is ''"),
        ("p1\n\np2\n", "line 2 of --partitions: partition id is ''"),
        ("p1\np2\np1\n", "partition id in line 3 of --partitions is 'p1', expected each once; line 1 has it too"),
        ("p1\n p2\n", "line 2"),
        ("p" * 256, "255 bytes"),
        (b"p1\n\xff\n", "UTF-8 (byte 3, in line 2, is not)"),
        ("p1\n".encode("utf-16"), "UTF-8 (byte 0, in line 1, is not)"),
        (b"\xef\xbb\xbf\n", "line 1"),
        (b"\x7fELF\x02\x01\x00\x00", "line 1"),
        ("postgres://u:s3cret@h/d", "line 1"),
    ],
)
def test_a_mistake_in_a_file_of_ids_is_named(text, says, tmp_path):
    written(tmp_path, "ids", text)
    message = refused(run("assign", *NODES, "--partitions", "ids", folder=tmp_path))
    assert says in message
    assert "s3cret" not in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("partition,size\n", "at least one partition"),
        ("partition,bytes\np,1\n", "--size-column is 'size'"),
        ("id,size\np,1\n", "--column is 'partition'"),
        ("partition,size\np,-1\n", "size in line 2 of --partitions is '-1', expected bytes: a whole number"),
        ("partition,size\np,1\nq,many\n", "size in line 3"),
        ("partition,size\np,1.5\n", "size in line 2"),
        ("partition,size\np,\n", "size in line 2"),
        ("partition,size\np," + "9" * 5000 + "\n", "size in line 2"),
        ("partition,size\np,9999999999999999999\n", "size of a partition"),
        ("partition,size\np,1\nq\n", "columns in line 3 of --partitions is 1, expected 2"),
        ('partition,size\n"p,1\n', "CSV"),
        ("partition,size\np,1\np,2\n", "line 3"),
    ],
)
def test_a_mistake_in_a_table_of_partitions_is_named(text, says, tmp_path):
    written(tmp_path, "ids.csv", text)
    columns = ("--column", "partition", "--size-column", "size")
    assert says in refused(run("assign", *NODES, "--partitions", "ids.csv", *columns, folder=tmp_path))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "--nodes or --topology"),
        (NODES, "--partitions is missing"),
        ((*NODES, "--partitions", "0"), "partitions is 0"),
        ((*NODES, "--partitions", "9" * 5000), "partitions is"),
        ((*NODES, "--partitions", "-5"), "--partitions"),
        ((*NODES, "--partitions", "nowhere"), "no such file"),
        ((*NODES, "--partitions", "."), "not a directory"),
        ((*NODES, "--partitions", "5", "--column", "x"), "--column"),
        ((*NODES, "--partitions", "ids.csv", "--size-column", "x"), "--column too"),
        ((*NODES, "--partitions", "5", "--replicas", "0"), "replicas is 0"),
        (
            (*NODES, "--partitions", "5", "--replicas", "5"),
            "5 replicas wanted on distinct nodes, 4 eligible (a, b, c, d)",
        ),
        ((*NODES, "--partitions", "5", "--spread", "lose"), "--spread"),
        ((*NODES, "--partitions", "5", "--spread-level", "-1"), "--spread-level"),
        ((*NODES, "--partitions", "5", "--live", "a,x"), "node id is 'x'"),
        ((*NODES, "--partitions", "5", "--down", "x"), "node id is 'x'"),
        ((*NODES, "--partitions", "5", "--down", "a,b,c,d"), "needs a node"),
        ((*NODES, "--partitions", "5", "--live", "a", "--down", "b"), "--live is 'a', expected no --down with it"),
        (("--previous", "table.json"), "snapshot kind is 'table', expected 'assignment'"),
        (("--previous", "junk"), "bytes that apportion saved"),
        (("--previous", "nowhere"), "assignment file is 'nowhere', expected a usable file"),
        (("--previous", "state.json", "--topology", "shop.toml"), "cluster"),
    ],
)
def test_a_mistake_is_named_with_the_way_out(options, says, state):
    run("table", "export", "--nodes", "a,b", folder=state)
    written(state, "junk", bytes(range(256)))
    written(state, "shop.toml", 'cluster = "shop"\n[[node]]\nid = "a"\n')
    before = (state / "state.json").read_bytes()
    assert says in refused(run("assign", *options, "-o", "state.json", folder=state))
    assert before == (state / "state.json").read_bytes()


def test_an_assignment_without_a_rule_goes_on_as_it_is(tmp_path):
    plain = Assignment(topology=Topology(["a", "b"]), rows=((0,), (0,), (1,)))
    written(tmp_path, "plain.json", encode(plain))
    process = run("assign", "--previous", "plain.json", "--down", "b", folder=tmp_path)
    assert "1 of 3 replicas move" in last_line(process)


@pytest.mark.parametrize(("partitions", "down", "size"), [("700000", (), 16_800_000), ("400000", ("c",), 19_200_000)])
def test_an_assignment_that_cannot_be_saved_is_refused_before_the_work(tmp_path, monkeypatch, partitions, down, size):
    monkeypatch.setattr("apportion.console.options.partitions.optimal", None)
    outage = Outage(down=list(down))
    wanted = PartitionOptions(partitions=partitions, replicas=3)
    with pytest.raises(BadSnapshot, match=f"snapshot size is {size}, expected at most 16777216 bytes"):
        wanted.assigned(Topology(["a", "b", "c", "d"]), outage, None, is_saved=True)
    options = (*NODES, "--partitions", "2000000", "--replicas", "2", "-o", "state.json")
    assert "snapshot size is 32000000" in refused(run("assign", *options, folder=tmp_path))
    assert not (tmp_path / "state.json").exists()
