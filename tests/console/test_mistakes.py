"""Mistakes on the command line: each names the value or field, an expectation and a next step; no file is lost."""

import json
import re
import shlex
from pathlib import Path

import pytest

from apportion.console.explain_error import KINDS, NEXT
from tests.console.running import refused, run, written

# Each line is a mistake; the words after the bar stand in its message.
MISTAKES = """
rote k | 'rote' Did you mean 'route'?
Route k | 'Route' Did you mean 'route'?
routes k | 'routes' Did you mean 'route'?
balance | 'balance' expected one of
--versoin | '--versoin' Write the command before its options
--nodes a,b route k | '--nodes' Write the command before its options
table exprt | command of apportion table is 'exprt' Did you mean 'export'?
group shw | command of apportion group is 'shw' Did you mean 'show'?
guard chek | 'chek' Did you mean 'check'?
store upgarde | 'upgarde' Did you mean 'upgrade'?
tasks worke | command of apportion tasks is 'worke' Did you mean 'worker'?
tasks stat sqlite:///x.db | 'stat' Did you mean 'stats'?
route --nodez a k | '--nodez' Did you mean '--nodes'?
route --jsn --nodes a,b k | '--jsn' Did you mean '--json'?
route --nodes a,b -x k | '-x' See apportion route --help.
route -n a,b k | '-n' See apportion route --help.
route --nodes a,b --html x.html k | --html is an option of compare, evaluate.
route --nodes a,b --partitions 5 k | --partitions is an option of assign, group run.
route --nodes a,b --lease-ttl 5s k | --lease-ttl is an option of group run.
compare --nodes a,b --add 1 | --add is an option of plan, group plan.
evaluate --nodes a,b | --nodes is an option of assign, compare
undo --to 9 | --to is an option of plan, group plan,
hotkeys --nodes a,b | --nodes is an option of
demo --workers 3 | '--workers' See apportion demo --help.
doctor --stor | '--stor' Did you mean '--store'?
group resize sqlite:///x.db g --partitions 0 | --partitions is an option of assign, group run.
route --nodes | --nodes is missing See apportion route --help.
route --nodes a,b --keys | --keys is missing
route --nodes a,b | keys is missing --keys FILE
route k | --nodes or --topology is missing
explain --nodes a,b | KEY is missing apportion explain --help
explain k | --nodes or --topology is missing
plan --add c | --nodes or --topology is missing
plan --nodes a,b --add | --add is missing
apply | PLAN is missing
table diff t.json | NEW is missing
table import | FILE is missing
table repair | URL is missing sqlite:///work.db
table repair sqlite:///x.db | NAME is missing
group show | URL is missing
group show sqlite:///x.db | NAME is missing
group forget sqlite:///x.db g | MEMBER is missing
group run sqlite:///x.db g | --partitions is missing
guard check | URL is missing
store upgrade | URL is missing
store grants sqlite:///x.db | --user is missing
doctor --store | --store is missing
tasks worker | QUEUES is missing Write for example app:queue
tasks enqueue sqlite:///x.db mail | NAME is missing apportion tasks enqueue --help
tasks ls sqlite:///x.db | QUEUE is missing
tasks stats | URL is missing sqlite:///work.db
tasks workers | URL is missing
tasks top | URL is missing
tasks show sqlite:///x.db | ID is missing apportion tasks ls URL QUEUE
tasks why sqlite:///x.db | ID is missing
tasks cancel sqlite:///x.db | ID is missing
tasks retry sqlite:///x.db | ID is missing
tasks redrive sqlite:///x.db | ID is missing
tasks purge sqlite:///x.db mail | --state is missing
tasks pause sqlite:///x.db | QUEUE is missing
tasks resume sqlite:///x.db | QUEUE is missing
tasks limit sqlite:///x.db mail | --running is missing --off
evaluate --html | --html is missing
hotkeys | keys is missing
assign --nodes a,b | --partitions is missing Write --partitions 1000
explain --nodes a,b k1 k2 | 'k2' no argument after KEY
plan --nodes a,b --add c d | 'd' commas
apply p.json t.json | 't.json' no argument after PLAN
table export --nodes a,b --csv t.json | 't.json' options alone
table log t.json | 't.json'
undo t.json | 't.json'
tour extra | 'extra'
hotkeys k | 'k'
route --nodes a --nodes b k | --nodes is 'b' Join the ids with commas
route --nodes a,b --slots many k | --slots is 'many' a whole number
route --nodes a,b --slots 1.5 k | --slots is '1.5' a whole number
route --nodes a,b --slots 0 k | slots is 0
route --nodes a,b --slots -1 k | slots is -1
route --nodes a,b --vnodes 1e3 k | --vnodes is '1e3' a whole number
route --nodes a,b --json=maybe k | --json is 'maybe' true or false
table export --nodes a,b --replicas 1.5 | --replicas is '1.5' a whole number
hotkeys --keys keys --top x | --top is 'x' a whole number
hotkeys --keys keys --top 2.5 | --top is '2.5' a whole number
hotkeys --keys keys --top 0 | --top is 0 Write --top 10
assign --nodes a,b --partitions 10 --spread loose | --spread is 'loose' best-effort, strict
assign --nodes a,b --partitions 10 --replicas two | --replicas is 'two' a whole number
assign --nodes a,b --partitions 10 --replicas 0 | replicas is 0
assign --nodes a,b --partitions 0 | partitions is 0 Write --partitions 1000
assign --nodes a,b --partitions -5 | --partitions is '-5' Write --partitions 1000
assign --nodes a,b --partitions 1.5 | --partitions is '1.5' Write --partitions 1000
group run sqlite:///x.db g --partitions 3 --lease-ttl 10 -- true | --lease-ttl is '10' Write 10s
group run sqlite:///x.db g --partitions 3 --lease-ttl soon -- true | --lease-ttl is 'soon' such as 10s
group run sqlite:///x.db g --partitions 3 --settle 0.5 -- true | --settle is '0.5' Write 0.5s
group run sqlite:///x.db g --partitions 3 --zone eu//r1 -- true | zone level is '' check for an extra separator
group run sqlite:///x.db g --partitions many -- true | --partitions is 'many'
group run sqlite:///x.db g --partitions 3 --weight heavy -- true | --weight is 'heavy' a number
group run sqlite:///x.db g --partitions 3 --mode careful -- true | --mode is 'careful'
group resize sqlite:///x.db g many | PARTITIONS is 'many'
group release sqlite:///x.db g x | PARTITION is 'x'
route --nodes a,,b k | 'a,,b' a,b
route --nodes a, k | 'a,' commas
route --nodes a, b k | 'a,' commas
route --nodes ,a k | ',a'
route --nodes "a, b" k | 'a, b' a,b
route --nodes "" k | node ids is ''
route --nodes a,a k | 'a'
plan --nodes a,b --add c,,d | 'c,,d' c,d
plan --nodes a,b --remove "a, b" | 'a, b' a,b
assign --nodes a,b --partitions 9 --down a, | 'a,'
route --nodes a,b --placement rign k | 'rign' Did you mean 'ring'?
route --nodes a,b --placement directory k | --placement is 'directory' Pick another --placement
route --nodes a,b --placement ring --slots 8 k | --slots is 8
route --nodes a,b --vnodes 8 k | --vnodes is 8 --placement ring
route --nodes a,b --hasher md4 k | 'md4' Did you mean 'md5'?
route --nodes a,b --hasher siphash-2-4 k | --hasher-key-file
route --nodes a,b --hasher-key-file nofile k | 'nofile'
route --nodes a,b --column id k | --column is 'id' --keys FILE.csv
route --nodes a,b --keys nofile | --keys is 'nofile'
route --nodes a,b --keys keys k | keys is 'given twice'
route --nodes a,b --table t.json k | --nodes is 'a,b' --table
route --table p.json k | p.json: snapshot kind is 'plan' 'table'
route --table junk.json k | junk.json: snapshot
route --table cut.json k | cut.json: checksum
route --table empty k | 'empty' not empty
route --table nofile k | 'nofile' no such file
route --table asg.json k | asg.json: 'assignment'
route --topology junk.json k | 'junk.json' [[node]]
route --topology nofile k | 'nofile' no such file
route --topology t.json k | 't.json'
plan --nodes a,b --add b | 'b'
plan --nodes a,b --remove c | 'c' one of a, b
plan --nodes a,b --remove a,b | Add a node
plan --nodes a,b --weight a | --weight is 'a' ID=VALUE
plan --nodes a,b --weight a=x | --weight is 'x' a number
plan --nodes a,b --weight c=2 | 'c' one of a, b
plan --nodes a,b --zone a=eu | --zone is 'a' Leave the option out
plan --nodes a,b --drain a --remove a | --drain is 'a'
plan --nodes a,b --to top.toml --add c | --to is 'top.toml'
plan --nodes a,b --add c -o t.json | 't.json' a table
plan --nodes a,b --add c -o nodir/p.json | 'nodir/p.json'
plan --table p.json --add c | p.json: 'plan'
plan --assignment t.json --remove a | t.json: 'table'
plan --nodes a,b --add c --keys nofile | 'nofile'
apply nofile | 'nofile' no such file
apply t.json | t.json: snapshot kind is 'table' 'plan'
apply p.json --table asg.json | asg.json
apply p.json --table nofile | 'nofile'
assign --nodes a,b --partitions x | 'x' no such file
assign --nodes a,b --partitions 10 --replicas 3 | 3 replicas 2 eligible (a, b)
assign --nodes a,b --partitions 10 --live c | 'c' one of a, b
assign --nodes a,b --partitions 10 --down a,b | Name a node that is up
assign --nodes a,b --partitions 10 --live a --down b | --live is 'a'
assign --nodes a,b --partitions 10 --previous t.json | t.json: 'table' 'assignment'
assign --nodes a,b --partitions 10 --size-column s | --size-column is 's'
assign --nodes a,b --partitions 10 -o p.json | 'p.json' a plan
compare --nodes a | Name more nodes
compare --nodes a,b --keys empty | --keys is 'empty'
compare --nodes a,b --html t.json | 't.json' a table
evaluate --scenario nofile | 'nofile'
evaluate --preset helix-paper --seeds 0 | --seeds is 0 Write --seeds 1
hotkeys --keys empty | --keys is 'empty'
hotkeys --keys nofile | --keys is 'nofile'
table export --nodes a,b --replicas 3 | 3 replicas 2 eligible
table export --nodes a,b -o p.json | 'p.json' a plan
table diff t.json nofile | 'nofile'
table diff t.json p.json | p.json: 'plan'
table import nofile --nodes a,b | 'nofile'
table import junk.json --nodes a,b | 'hello' start,end,owners
table log --table p.json | p.json
table log --table nofile | 'nofile'
undo --table nofile | 'nofile'
undo --table p.json | p.json
undo --table t.json --assignment asg.json | --table is 't.json' one of the two
group show nofile g | 'nofile' Write for example
group show mysql://h/db g | 'mysql' one of
group show sqlite:///no.db g | no.db
group show redis://127.0.0.1:1/0 g | redis://127.0.0.1:1/0 Try again
group drain memory:// g m | 'g'
guard check memory:// | resource is ''
store upgrade nofile | 'nofile' Write for example
doctor --store nofile | 'nofile' Write for example
tasks worker app | QUEUES is 'app' app:queue MODULE:NAME
tasks worker nomodule:queue | QUEUES is 'nomodule' PYTHONPATH
tasks worker os:queue | QUEUES is 'os:queue' os has none
tasks worker jobs:queu | QUEUES is 'jobs:queu' Did you mean 'jobs:queue'?
tasks worker jobs:queue jobs:queue | QUEUES is 'jobs:queue' each queue once --concurrency
tasks worker jobs:bare | QUEUES is 'jobs:bare' task functions Import the modules
tasks worker jobs:queue --concurrency 0 | concurrency is 0
tasks worker jobs:queue --processes -1 | processes is -1
tasks worker jobs:queue --concurrency many | --concurrency is 'many' a whole number
tasks enqueue sqlite:///x.db mail send ann | arguments of send is 'ann' JSON
tasks enqueue sqlite:///x.db mail send '["ann"]' | arguments of send a JSON object by name
tasks enqueue sqlite:///x.db mail send '{"a": NaN}' | arguments of send NaN by name
tasks enqueue sqlite:///x.db "my mail" send | queue is 'my mail'
tasks enqueue sqlite:///x.db mail send --priority 4 | priority is 4
tasks enqueue sqlite:///x.db mail send --delay 5 | --delay is '5' Write 5s
tasks enqueue sqlite:///x.db mail send --delay -5s | delay is
tasks enqueue sqlite:///x.db mail send --on-duplicate drop | --on-duplicate is 'drop' keep, replace
tasks ls sqlite:///no.db mail | no.db Check the URL
tasks ls memory:// "my mail" | queue is 'my mail'
tasks ls memory:// mail --state dea | --state is 'dea' Did you mean 'dead'?
tasks ls memory:// mail --most 0 | most is 0
tasks ls memory:// mail --after here | after is 'here' first page
tasks stats sqlite:///no.db | no.db Check the URL
tasks stats nofile | 'nofile' Write for example
tasks workers mysql://h/db | 'mysql' one of
tasks top sqlite:///no.db | no.db
tasks show sqlite:///no.db x | no.db
tasks why sqlite:///no.db x | no.db
tasks cancel memory:// x --queue mail | --queue is 'mail' no ids
tasks cancel memory:// --state ready | --state is 'ready' --queue beside it
tasks cancel memory:// --queue mail --state dead | states is 'dead' some of ready, delayed
tasks retry memory:// --queue mail --state dead | --state is 'dead' apportion tasks redrive
tasks redrive memory:// --queue mail --state ready | states is 'ready' some of dead
tasks redrive memory:// --name send | --name is 'send' --queue beside it
tasks redrive sqlite:///no.db --queue mail | no.db
tasks purge memory:// mail --state claimed | --state is 'claimed' apportion tasks cancel
tasks purge memory:// mail --state all | --state is 'all' one of
tasks pause sqlite:///no.db mail | no.db
tasks resume memory:// mail! | queue is 'mail!'
tasks limit memory:// mail --running 0 | --running is 0 apportion tasks pause
tasks limit memory:// mail --running many | --running is 'many' a whole number
tasks limit memory:// mail --rate 100 | --rate is '100' 100/min
tasks limit memory:// mail --rate 5/week | --rate is '5/week' 100/min
tasks limit memory:// mail --off --running 5 | --off alone
undo --table "" | '.' not a directory Check the path
undo --table . | '.' not a directory Check the path
undo --assignment . | '.' not a directory
apply p.json --table . | '.' not a directory
route --topology . k | '.' not a directory names no file.
hotkeys --keys . | '.' not a directory standard input.
plan --nodes a,b --placement jump --add c | keys is missing Pass --keys FILE
plan --nodes a,b --placement jump --weight a=2 --keys keys | --placement ring
route --nodes a,b --hasher siphash-2-4 --hasher-key-file keys k | 16 bytes head -c
assign --nodes a,b --partitions 10 --spread-level -1 | --spread-level is -1 0 .. 7.
assign --nodes a,b --partitions 10 --spread-level 8 | --spread-level is 8 0 .. 7.
group run sqlite:///x.db g --partitions 2 --throttle 0 -- true | throttle is 0 --throttle 10,
group run sqlite:///x.db g --partitions 2 --static -- true | --member-id is missing Pass --member-id,
group run sqlite:///x.db g --partitions 2 --lease-ttl 0s -- true | --lease-ttl is
group run sqlite:///x.db g --partitions 2 --quarantine-after 0 -- true | --quarantine-after is 0
tasks enqueue sqlite:///x.db mail send --key "" | key is '' Write --key tenant-42;
table import t.json --nodes a,b | 't.json' CSV The file is a table.
table import junk.json --format nodetool-describering | 'hello'
cron next "0 9 * * *" -n 0 | --number is 0 10000 -n 5
cron next "0 9 * * *" -n 10001 | --number is 10001 10000 -n 5
help route --nodez | '--nodez' no option
assign --nodes a,b --partitions nofile -o p.json | --output is 'p.json' a plan
table export --table nofile -o p.json | --output is 'p.json' a plan
table import nofile --nodes a,b -o p.json | --output is 'p.json' a plan
group plan sqlite:///no.db g --add w -o p.json | --output is 'p.json' a plan
route --table #orders k | URL#NAME APPORTION_STORE
route --topology idnum.toml k | node id is 1 text Write it in quotes.
route --topology single.toml k | '[node]' [[node]]
route --nodes a,b --hasher "" k | hasher is '' one of
route --nodes a,b --placement "" k | placement is '' one of
apply top.toml | top.toml: snapshot [[node]]
apply shards.json | shards.json: 'shardplan' apportion shards apply
plan --nodes a,b --to {long} | topology file is file name too long
plan --topology {long} --add c -o p2.json | topology file is file name too long
undo --table loop | --table is 'loop' Check the path
table export --nodes a,b -o loop | --output is 'loop' Check the path
group run memory:// g --partitions 2 --rejoin-grace 5s -- true | --rejoin-grace is '5s' no value --static --member-id
tasks enqueue sqlite:///x.db mail send --expires 0s | --expires is '0s' above 0 Write --expires 3600s
tasks enqueue sqlite:///x.db mail send --delay 2h --expires 1h | --expires is '3600s' above the delay
tasks enqueue sqlite:///x.db mail send --delay 400d | --delay is '34560000s' a time from 0 Write --delay 10s
tasks enqueue sqlite:///x.db mail send --key a --delay 5s | --delay is '5s' no value with a key
tasks enqueue sqlite:///x.db mail send --unique "" | --unique is '' text of 1 to 200
tasks show memory:// "" | id of a task is '' apportion tasks ls
tasks why memory:// postgresql://u:s3cr3t@h/d | 'postgresql://***@h/d' apportion tasks ls
cron next "0 9 * * *" --after 9999-12-31T23:00Z | --after is before the year 9999 Write for example
shards apply sqlite:///x.db shop --attempts 0 | --attempts is 0 a whole number
explain-error NotEnough | 'NotEnough' one of
explain-error | CODE is missing
""".strip().splitlines()
ERRORS_PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()
PYTHON = re.compile(r"\bNone\b|\w\(|\b[a-z_]+=(True|False|'|\")|\ban int\b|\bdocs/|\.py\b|<class|strip\(\)|Tokens")
PYTHON_NAMES = re.compile(r"\b(Write|Pass|pass|with) [a-z_]+=|\b[a-z]+_[a-z]+ is |\bRendezvous\b|secrets\.")


JOBS = """
import apportion
queue, bare = apportion.Queue("sqlite:///no.db", "mail"), apportion.Queue("sqlite:///no.db", "bare")
@queue.task()
def send(to: str) -> None: ...
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    for made in ("table export --nodes a,b -o t.json", "assign --nodes a,b,c --partitions 12 -o asg.json"):
        assert 0 == run(*made.split(), folder=folder).returncode
    assert 2 == run(*("plan", "--nodes", "a,b", "--add", "c", "-o", "p.json"), folder=folder).returncode
    written(folder, "cut.json", (folder / "t.json").read_bytes()[:-40])
    written(folder, "jobs.py", JOBS)
    for name, text in (
        ("junk.json", "hello\n"),
        ("empty", ""),
        ("keys", "k\n"),
        ("top.toml", "[[node]]\nid = 'a'\n"),
        ("idnum.toml", "[[node]]\nid = 1\n"),
        ("single.toml", "[node]\nid = 'a'\n"),
    ):
        written(folder, name, text)
    written(
        folder,
        "shards.json",
        b'{"apportion":"shardplan",' + (folder / "p.json").read_bytes()[len('{"apportion":"plan",') :],
    )
    (folder / "loop").symlink_to("loop")
    run("tasks", "worker", "jobs:none", folder=folder)  # a program is compiled when it is imported first
    return folder


def _files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_names_the_value_an_expectation_and_the_next_step_and_changes_no_file(line, folder):
    command, _, words = line.partition(" | ")
    if command.startswith("hotkeys"):
        pytest.importorskip("datasketches", reason="it has no wheel for this interpreter")
    before = _files(folder)
    process = run(*shlex.split(command.replace("{long}", 300 * "x")), folder=folder)
    message = refused(process)
    assert b"" == process.stdout
    assert before == _files(folder)
    problem, *hint = message.removeprefix("error: ").splitlines()
    assert re.search(r"expected |needs |wanted |unavailable", problem), "an expectation"
    assert any(len(step.split()) >= 2 for step in hint), "a next step"
    assert not PYTHON_NAMES.search(message), "options of the command line"
    assert not PYTHON.search(message), "words of the command line, and no path of the repository"
    for part in re.findall(r"'[^']*'\S*|\S+", words):
        assert part in message


@pytest.mark.parametrize(
    ("command", "code", "expected", "hint"),
    [
        ("route --nodes a,b --json --slots many k", "InvalidInput", "a whole number", "See apportion route --help."),
        ("route --json --nodez a,b k", "UnknownOption", "one of --column", "Did you mean '--nodes'?"),
        ("assign --nodes a --partitions 9 --replicas 2 --json", "NotEnoughNodes", None, "Add nodes"),
        ("route --table cut.json --json k", "BadSnapshot", "", "take a fresh copy"),
    ],
)
def test_a_mistake_beside_json_is_one_object_on_standard_error(command, code, expected, hint, folder):
    process = run(*command.split(), folder=folder)
    told = json.loads(process.stderr)
    assert (1, b"") == (process.returncode, process.stdout)
    assert ["format_version", "error", "message", "expected", "hint"] == list(told)
    assert code == told["error"]
    assert told["expected"] is None if expected is None else told["expected"].startswith(expected)
    assert hint in told["hint"]


def test_json_after_two_hyphens_is_a_key_and_the_error_stays_text(folder):
    assert refused(run("route", "--nodes", "a,,b", "--", "--json", folder=folder)).startswith("error: list of node ids")


@pytest.mark.parametrize("command", ["route --nodes a b", "route --nodes a b c", "explain --nodes a b"])
def test_a_key_that_may_be_a_swallowed_node_is_noted(command, folder):
    process = run(*command.split(), folder=folder)
    assert 0 == process.returncode
    assert b"note: --nodes names one node, 'a'; 'b' is a key.\nSeparate nodes with commas" in process.stderr


@pytest.mark.parametrize(
    "command", ["route --nodes a,b k", "route --nodes a --keys keys", "route --nodes a,b --keys keys"]
)
def test_keys_beside_several_nodes_or_from_a_file_are_not_noted(command, folder):
    process = run(*command.split(), folder=folder)
    assert (0, b"") == (process.returncode, process.stderr)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_file_without_keys_is_noted(more, folder):
    process = run("route", "--nodes", "a,b", "--keys", "empty", *more, folder=folder)
    assert 0 == process.returncode
    assert b"note: --keys is 'empty', which holds no key." in process.stderr


def test_a_module_is_named_without_the_end_of_its_file(folder):
    message = refused(run("tasks", "worker", "jobs.py:queue", folder=folder))
    assert "QUEUES is 'jobs.py'" in message
    assert "without .py" in message


def test_no_part_of_a_password_is_shown(folder):
    for line in (
        "tour postgres://u:s3cr pa@h/d",
        "route --nodes a,b --slots u:s3cr@h k",
        "s3cr@h",
        "route --s3cr@h=1 k",
    ):
        message = refused(run(*line.split(), folder=folder))
        assert "s3cr" not in message
        assert "not shown" in message


@pytest.mark.parametrize("code", sorted(KINDS))
def test_every_error_explains_its_meaning_and_the_next_step_offline(code, folder):
    process = run("explain-error", code, folder=folder)
    name, meaning, _, retry, step = process.stdout.decode().splitlines()
    assert (0, code) == (process.returncode, name)
    assert meaning.endswith(".")
    assert KINDS[code].retryable == retry.endswith("may help")
    assert len(step.split()) > 3
    assert f"`{code}`" in ERRORS_PAGE or f"## {code}\n" in ERRORS_PAGE


def test_every_leaf_of_the_errors_has_a_next_step_of_its_own():
    parents = {base for kind in KINDS.values() for base in kind.__mro__[1:]}
    assert sorted(name for name, kind in KINDS.items() if kind not in parents) == sorted(NEXT)


@pytest.mark.parametrize("zoned", ["ab", "a", ""])
def test_nodes_without_a_zone_beside_nodes_with_one_are_noted(zoned, folder):
    zones = ("\n".join(f"[[node]]\nid = '{each}'" + "\nzone = ['eu']" * (each in zoned) for each in "ab")) + "\n"
    written(folder, "zones.toml", zones)
    process = run("route", "--topology", "zones.toml", "k", folder=folder)
    note = "note: in zones.toml, nodes have no zone: b.\nEach of them counts as a zone. Nodes that fail"
    assert 0 == process.returncode
    assert (note in process.stderr.decode()) is (zoned == "a")
