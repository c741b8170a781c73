"""`apportion route`: the same answers as the library, from every kind of source."""

import json
import os
import subprocess
import sys

import pytest

from apportion import Node, Ring, Slots, Topology, balance
from tests.console.running import COMMAND, refused, run, written


def test_keys_are_routed_as_the_library_routes_them(tmp_path):
    slots = Slots(balance.slots(Topology(["a", "b", "c"])))
    expected = "".join(f"{key}\t{slots.route(key)}\n" for key in ("x", "é", ""))
    assert expected == run("route", "--nodes", "c,b,a", "x", "é", "", folder=tmp_path).stdout.decode()


def test_a_ring_is_routed_with_its_options(tmp_path):
    out = run(
        "route", "--nodes", "a,b", "--placement", "ring", "--vnodes", "7", "--hasher", "md5", "k", folder=tmp_path
    )
    assert f"k\t{Ring(['a', 'b'], vnodes=7, hasher='md5').route('k')}\n" == out.stdout.decode()


@pytest.mark.slow
def test_lines_of_a_file_and_of_standard_input_are_keys_whatever_their_line_ending(tmp_path):
    file = written(tmp_path, "keys.txt", "one\r\ntwo\nthree")
    from_file = run("route", "--nodes", "a,b", "--keys", file, folder=tmp_path)
    from_stdin = run("route", "--nodes", "a,b", "--keys", "-", folder=tmp_path, stdin=b"one\ntwo\nthree\n")
    assert b"one" == from_file.stdout.split(b"\t")[0]
    assert from_file.stdout == from_stdin.stdout


@pytest.mark.slow
def test_bytes_that_are_no_text_are_routed_as_they_are(tmp_path):
    out = run("route", "--nodes", "a,b,c", "--keys", "-", folder=tmp_path, stdin=b"\xff\xfe\x00x\n"[2:] + b"\xff\n")
    slots = Slots(balance.slots(Topology(["a", "b", "c"])))
    assert b"\xff\t" + slots.route(b"\xff").encode() == out.stdout.splitlines()[1]
    listed = run("route", "--nodes", "a", "--json", "--keys", "-", folder=tmp_path, stdin=b"a\xff\n")
    assert [{"key_hex": "61ff", "node": "a"}] == json.loads(listed.stdout)["routes"]


def test_a_column_of_a_csv_file_gives_the_keys(tmp_path):
    file = written(tmp_path, "t.csv", 'id,name\n1,"a, b"\n2,c\n')
    out = run("route", "--nodes", "a", "--keys", file, "--column", "name", folder=tmp_path)
    assert b"a, b\ta\nc\ta\n" == out.stdout


def test_an_imported_table_routes(tmp_path):
    written(tmp_path, "t.csv", "start,end,owners\n0,8000000000000000,a\n8000000000000000,10000000000000000,b,a\n")
    assert 0 == run("table", "import", "t.csv", "--nodes", "a,b", folder=tmp_path).returncode
    out = run("route", "--table", "table.json", "--json", "k", folder=tmp_path)
    from apportion import hashers

    owner = "b" if hashers.get("xxh3-64")(b"k") >= 2**63 else "a"
    assert owner == json.loads(out.stdout)["routes"][0]["node"]


def test_a_key_with_a_line_break_is_refused_in_lines_and_routed_in_json(tmp_path):
    message = refused(run("route", "--nodes", "a,b", "one", "t\nwo", folder=tmp_path))
    assert "key 2" in message
    assert "1 keys before it are printed" in message
    assert "--json" in message
    out = run("route", "--nodes", "a", "--json", "t\nwo", folder=tmp_path)
    assert "t\nwo" == json.loads(out.stdout)["routes"][0]["key"]


def test_json_says_its_format_version_and_epoch(tmp_path):
    document = json.loads(run("route", "--nodes", "a", "--json", "k", folder=tmp_path).stdout)
    assert (1, "route", "1:") == (document["format_version"], document["command"], document["epoch"][:2])


@pytest.mark.slow
def test_keys_from_nowhere_and_from_two_places_are_refused(tmp_path):
    assert "--keys FILE" in refused(run("route", "--nodes", "a", folder=tmp_path))
    assert "given twice" in refused(run("route", "--nodes", "a", "k", "--keys", "-", folder=tmp_path, stdin=b""))


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_traceback(tmp_path):
    read, write = os.pipe()
    os.close(read)
    keys = b"".join(b"key-%d\n" % number for number in range(20_000))
    process = subprocess.run(
        [*COMMAND, "route", "--nodes", "a", "--keys", "-"],
        stdout=write,
        stderr=subprocess.PIPE,
        input=keys,
        check=False,
    )
    os.close(write)
    assert (1, b"") == (process.returncode, process.stderr)


def test_without_the_extra_the_line_that_installs_it_is_printed(tmp_path):
    code = "import sys; sys.modules['cyclopts'] = None; from apportion.console.main import main; sys.exit(main([]))"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 1 == process.returncode
    assert "pip install 'apportion[cli]'" in process.stderr


def test_replicas_are_printed_as_the_preference_list_of_the_library(tmp_path):
    options = ("--topology", "t.toml", "--placement", "ring", "--replicas", "2", "x", "é")
    written(
        tmp_path, "t.toml", "".join(f'[[node]]\nid = "{each}"\nzone = ["z{each[0]}"]\n' for each in ("a1", "a2", "b"))
    )
    ring = Ring([Node("a1", zone=("za",)), Node("a2", zone=("za",)), Node("b", zone=("zb",))])
    expected = {key: ring.preference(key, 2) for key in ("x", "é")}
    lines = run("route", *options, folder=tmp_path).stdout.decode()
    assert "".join(f"{key}\t{nodes[0]}\t{nodes[1]}\n" for key, nodes in expected.items()) == lines
    routes = json.loads(run("route", "--json", *options, folder=tmp_path).stdout)["routes"]
    assert [{"key": key, "node": nodes[0], "nodes": [*nodes]} for key, nodes in expected.items()] == routes


def test_more_replicas_than_there_can_be_are_refused_in_the_words_of_the_command_line(tmp_path):
    for number in ("0", "-1"):
        assert "--replicas" in refused(run("route", "--nodes", "a", f"--replicas={number}", "k", folder=tmp_path))
    with_zone = written(tmp_path, "t.toml", "".join(f'[[node]]\nid = "{each}"\nzone = ["z"]\n' for each in "ab"))
    for source, way_out in (
        (("--nodes", "a,b"), "--placement ring"),
        (("--nodes", "a", "--placement", "ring"), "add nodes"),
        (("--topology", with_zone, "--placement", "ring"), "add zones"),
    ):
        message = refused(run("route", *source, "--replicas", "2", "k", folder=tmp_path))
        assert "2 replicas wanted" in message
        assert way_out in message
