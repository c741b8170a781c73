"""Bad input on the command line (the numbers are those of the list the project tests against): exit 1, no traceback."""

import os
import subprocess
import sys
import tracemalloc

import pytest

from tests.console.running import refused, run, written

ROUTE = ("route", "--nodes", "a,b")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("rote", "k"), "Did you mean"),
        (("route", "--nodez", "a", "k"), "Did you mean '--nodes'"),
        (("route", "--nodes", "a", "--placement", "rign", "k"), "Did you mean 'ring'"),
        (("route", "--nodes", "a", "--hasher", "xxh3", "k"), "Did you mean 'xxh3-64'"),
        (("route", "--nodes", "a", "--hasher", "siphash-2-4", "k"), "secret of 16 bytes"),
        (("route", "--nodes", "a", "--slots", "0", "k"), "slots"),  # 32
        (("route", "--nodes", "a", "--slots", "9", "--placement", "ring", "k"), "--slots"),
        (("route", "--nodes", "a", "--placement", "ring", "--vnodes", "1000000000", "k"), "vnodes"),  # 32
        (("route", "--nodes", "a", "--vnodes", "many", "k"), "--vnodes"),
        (("route", "--nodes", "", "k"), "node id"),  # 24
        (("route", "--nodes", "a,a", "k"), "'a'"),  # 25
        (("route", "--nodes", "a,b ", "k"), "blanks"),  # 26
        (("route", "--nodes", "a\u202e", "k"), "printable"),  # 26
        (("route", "--nodes", "a" * 256, "k"), "255 bytes"),
        (("route", "--nodes", "postgres://u:s3cr%t@ /:x@h/d", "k"), "credentials"),  # 48
        (("route", "k"), "--nodes or --topology"),
        (("route", "--nodes", "a", "--topology", "t", "k"), "exactly one"),
        (("route", "--table", "postgres://u:s3cr%t@ /:x@h/d", "k"), "URL#NAME"),  # 48
        (("plan", "--nodes", "a,b", "--weight", "a=nan"), "weight of node 'a'"),  # 31
        (("plan", "--nodes", "a,b", "--weight", "a=-1"), "weight of node 'a'"),
        (("plan", "--nodes", "a,b", "--weight", "a=1e308"), "weight of node 'a'"),
        (("plan", "--nodes", "a,b", "--weight", "a=many"), "a number"),
        (("plan", "--nodes", "a,b", "--weight", "a"), "ID=VALUE"),
        (("plan", "--nodes", "a,b", "--weight", "a=1", "--weight", "a=2"), "each node once"),
        (("plan", "--nodes", "db-1,db-2", "--remove", "db-3"), "Did you mean"),
        (("plan", "--nodes", "a,b", "--zone", "a=r1"), "--add"),
        (("plan", "--nodes", "a", "--remove", "a"), "no"),  # 24
        (("plan", "--nodes", "a,b", "--drain", "a", "--drain", "b"), "weight above 0"),  # 31
        (("explain", "k", "--nodes", "a", "--placement", "ringg"), "ring"),
        (("compare", "--nodes", "a"), "two nodes"),
        (("table", "export", "--nodes", "a,b", "--replicas", "3"), "replicas"),  # 33
        (("table", "export", "--nodes", "a,b", "--replicas", "0"), "count of nodes"),
        (("table", "export", "--nodes", "a,b", "--placement", "jump"), "slots or ring"),
        (("table", "diff", "no-such-file", "x"), "no such file"),
        (("apply", "no-such-file"), "no such file"),
    ],
)
def test_a_mistake_is_named_with_the_way_out(arguments, says, tmp_path):
    message = refused(run(*arguments, folder=tmp_path))
    assert says in message
    assert "s3cr" not in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not empty"),
        ("[[node]]\nid = 'a'\nweigth = 3\n", "Did you mean 'weight'"),
        ("[[nodes]]\nid = 'a'\n", "Did you mean 'node'"),
        ("[[node]]\nzone = ['r1']\n", "an id"),
        ("[[node]]\nid = 7\n", "node id"),
        ("[[node]]\nid = 'a'\nweight = nan\n", "weight of node 'a'"),
        ("[[node]]\nid = 'a'\nweight = true\n", "weight of node 'a'"),
        ("[[node]]\nid = 'a'\nzone = 'eu'\n", "zone"),
        ("[[node]]\nid = 'a'\nzone = ['eu', '']\n", "zone level"),
        ("[[node]]\nid = 'a'\nid = 'b'\n", "TOML"),
        ("node = 5\n", "[[node]]"),
        ("epoch = 1.5\n", "epoch number"),
        ("cluster = 1\n", "cluster"),
        ("x = " + "[" * 8_000, "TOML"),  # 41
        ("x = " + "9" * 4301, "TOML"),  # 41
        (b"\xef\xbb\xbf[[node]]\nid = 'a'\n", "byte order mark"),  # 50
        ("[[node]]\nid = 'a'\n".encode("utf-16"), "byte order mark"),
        (b"[[node]]\nid = '\xff'\n", "UTF-8"),
    ],
)
def test_a_mistake_in_a_topology_file_is_named(text, says, tmp_path):
    written(tmp_path, "t.toml", text)
    assert says in refused(run("route", "--topology", "t.toml", "k", folder=tmp_path))


@pytest.mark.parametrize(
    "arguments", [("--topology", "{}", "k"), ("--table", "{}", "k"), ("--nodes", "a", "--keys", "{}")]
)
@pytest.mark.parametrize("kind", ["directory", "loop", "fifo", "zero", "missing"])
def test_what_is_no_file_is_refused_without_waiting(arguments, kind, tmp_path):
    path = tmp_path / "thing"
    if kind == "directory":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "zero":
        path = "/dev/zero"
    refused(run("route", *(argument.format(path) for argument in arguments), folder=tmp_path))


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", "k".encode("utf-16")])
def test_keys_with_a_byte_order_mark_are_refused(start, tmp_path):
    written(tmp_path, "keys", start + b"k\n")
    assert "byte order mark" in refused(run(*ROUTE, "--keys", "keys", folder=tmp_path))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"id\n1,2\n", ""),
        (b"name\nx\n", "Did you mean"),
        (b"id,x\n1,2\n3\n", ""),
        (b'x,id\n1,"2\n', "CSV"),
        (b"x,id\n1\n", "line 2"),
        (b"x,id\n" + b"1" * 2_000_000, "line of --keys"),
    ],
)
def test_a_mistake_in_a_csv_file_is_named(text, says, tmp_path):
    written(tmp_path, "keys.csv", text)
    column = "nam" if says.startswith("Did") else "id"
    process = run(*ROUTE, "--keys", "keys.csv", "--column", column, folder=tmp_path)
    if says:
        assert says in refused(process)
    else:
        assert 0 == process.returncode, "further columns are none of our business"


def test_a_key_that_is_too_long_is_refused_with_its_line(tmp_path):
    written(tmp_path, "keys", b"short\n" + b"x" * 65_537 + b"\n")
    assert "line 2" in refused(run(*ROUTE, "--keys", "keys", folder=tmp_path))


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("0,10,a\n20,10000000000000000,a\n", "a gap"),  # 20
        ("0,20,a\n10,10000000000000000,a\n", "an overlap"),  # 19
        ("1,10000000000000000,a\n", "a gap"),
        ("0,ff,a\n", "a gap"),
        ("10,0,a\n", "range end"),  # 18
        ("0,0,a\n", "range end"),  # 21
        ("0,10000000000000001,a\n", "range end"),  # 22
        ("0,x,a\n", "line 2"),  # 23
        ("0,10000000000000000\n", ""),
        ("0,10000000000000000,c\n", "node id"),
        ("0,10000000000000000,a,a\n", "distinct"),
    ],
)
def test_a_mistake_in_an_imported_table_is_named_and_nothing_is_written(lines, says, tmp_path):
    written(tmp_path, "t.csv", "start,end,owners\n" + lines)
    assert says in refused(run("table", "import", "t.csv", "--nodes", "a,b", folder=tmp_path))
    assert not (tmp_path / "table.json").exists()


@pytest.mark.slow
def test_a_snapshot_above_the_cap_is_refused_without_reading_it(tmp_path):
    with (tmp_path / "big.json").open("wb") as file:
        file.truncate(2**31)
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (512 * 2**20,) * 2); "
    code += "from apportion.console.main import main; sys.exit(main(['table', 'diff', 'big.json', 'big.json']))"
    process = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False)
    assert "at most" in refused(process)


def test_refusing_an_endless_file_takes_little_memory(tmp_path):
    tracemalloc.start()
    refused(run("route", "--nodes", "a", "--keys", "/dev/zero", folder=tmp_path))
    refused(run("route", "--topology", "/dev/zero", "k", folder=tmp_path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20


def test_an_unwritable_place_is_an_error_and_leaves_nothing_behind(tmp_path):
    refused(run("table", "export", "--nodes", "a", "-o", tmp_path / "no" / "t.json", folder=tmp_path))
    refused(run("table", "export", "--nodes", "a", "-o", tmp_path, folder=tmp_path))
    assert [] == list(tmp_path.iterdir())


def test_markup_in_a_name_is_printed_and_not_read(tmp_path):
    out = run("plan", "--nodes", "[bold]x[/bold],<img src=x>", "--add", "../../etc/passwd", folder=tmp_path)
    assert b"[bold]x[/bold]" in out.stdout
    assert b"<img src=x>" in out.stdout


def test_help_prints_the_same_as_the_option(tmp_path):
    for words in ((), ("route",), ("table", "log"), ("group", "why")):
        assert run(*words, "--help", folder=tmp_path).stdout == run("help", *words, folder=tmp_path).stdout
    assert "nosuch" in refused(run("help", "nosuch", folder=tmp_path))


def test_every_command_explains_itself(tmp_path):
    from apportion.console.main import COMMANDS, TABLE_COMMANDS

    for words in (*((name,) for name in COMMANDS), *(("table", name) for name in TABLE_COMMANDS)):
        process = run(*words, "--help", folder=tmp_path)
        assert 0 == process.returncode
        assert b"Usage: apportion " + " ".join(words).encode() in process.stdout


@pytest.mark.parametrize("command", ["plan --nodes a,b --add c", "route --nodes a,b k", "group ls memory://", "doctor"])
def test_windows_is_refused_in_one_sentence_that_names_wsl(command, tmp_path):
    code = "import asyncio, sys; from apportion.console.main import main; sys.platform = 'win32'; sys.exit(main())"
    process = subprocess.run(
        [sys.executable, "-c", code, *command.split()], cwd=tmp_path, capture_output=True, check=False
    )
    message = "error: operating system is 'Windows', expected Linux or another POSIX system.\nRun the program in WSL.\n"
    assert message == refused(process)


def test_windows_is_refused_where_a_program_opens_a_store(tmp_path):
    code = "import asyncio, sys; sys.platform = 'win32'; import apportion; apportion.Ring(['a']); apportion.open_store"
    process = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert [
        "apportion.errors.InvalidInput: operating system is 'Windows', expected Linux or another POSIX system."
    ] == [line for line in process.stderr.splitlines() if line.startswith("apportion.")]
