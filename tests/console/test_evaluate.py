"""`apportion evaluate`: it prints what was measured, bad input is refused first, nothing is left half done."""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest

from apportion.balance import catalog
from apportion.balance.evaluation import NAMES, BalancerTrial
from apportion.console.evaluate import ceph, upmap
from apportion.console.evaluate import options as asked
from apportion.console.pages.parts import document
from tests.console.running import COMMAND, refused, run, written

EXAMPLE = Path(__file__).parents[2] / "examples" / "evaluate.toml"
NODES = "".join(f'[[node]]\nid = "n{number}"\nzone = ["z{number % 3}"]\n' for number in range(6))
RESOURCE = '[[resource]]\nname = "orders"\npartitions = 12\nreplicas = 2\n'
SMALL = 'balancers = ["helix.crush", "optimal"]\n' + NODES + RESOURCE


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What the example came to, as an object."""
    folder = tmp_path_factory.mktemp("evaluate")
    done = run("evaluate", "--scenario", EXAMPLE, "--seeds", 2, "--json", folder=folder)
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)


def test_the_example_has_a_result_for_every_balancer_and_scenario(measured):
    assert (1, "evaluate", None) == (measured["format_version"], measured["command"], measured["page"])
    found = [(each["scenario"], each["balancer"]) for each in measured["summary"]]
    scenarios = ("static", "disable-10%", "outage-and-return", "a rack is replaced")
    ranked = ("optimal", "helix.crushed", "helix.crush")
    assert [(name, balancer) for name in scenarios for balancer in ranked] == found
    assert 2 * len(found) == len(measured["results"])
    assert {"orders": {"partitions": 64, "replicas": 3}, "sessions": {"partitions": 40, "replicas": 2}} == measured[
        "clusters"
    ][0]["resources"]


def test_the_summary_is_the_mean_of_the_results(measured):
    for line in measured["summary"]:
        own, crush = (
            [each for each in measured["results"] if (each["balancer"], each["scenario"]) == (name, line["scenario"])]
            for name in (line["balancer"], "helix.crush")
        )
        deviations = [each["measures"]["partitions"]["deviation"] for each in own]
        of_crush = [each["measures"]["partitions"]["deviation"] for each in crush]
        gains = [1 - mine / theirs for mine, theirs in zip(deviations, of_crush, strict=True)]
        assert line["partitions_deviation"] == pytest.approx(fmean(deviations))
        assert line["partitions_gain"] == pytest.approx(fmean(gains))
        moved = [each["movement"]["extra"] / (each["movement"]["replicas"] or 1) for each in own]
        assert line["extra_ratio"] == pytest.approx(fmean(moved))
        times = [sum(each["seconds"] for each in listed) for listed in (own, crush)]
        assert line["times_crush"] == pytest.approx(times[0] / times[1])


def test_published_figures_stand_beside_those_of_every_balancer(measured):
    published = {each["figure"]: each for each in measured["published"]}
    assert ["87%", "68%"] == [each["published"] for each in measured["published"]][:2]
    partitions = published["STDEV of partitions below CRUSH's"]["found"]
    assert 0.0 == partitions["helix.crush"] < partitions["helix.crushed"] <= partitions["optimal"]
    disabled = [e for e in measured["summary"] if (e["scenario"], e["balancer"]) == ("disable-10%", "optimal")]
    assert disabled[0]["extra_ratio"] == published["extra moves, nodes disabled"]["found"]["optimal"]


def test_optimal_brings_back_what_was_before_an_outage(measured):
    returned = [each for each in measured["results"] if each["scenario"] == "outage-and-return"]
    assert [0, 0] == [each["movement"]["moved"] for each in returned if each["balancer"] == "optimal"]


def test_columns_say_the_same_as_json(tmp_path):
    file = written(tmp_path, "s.toml", SMALL)
    options = ("evaluate", "--scenario", file, "--scenarios", "static,add-20%")
    printed = run(*options, folder=tmp_path).stdout.decode()
    found = json.loads(run(*options, "--json", folder=tmp_path).stdout)
    lines = {(line["scenario"], line["balancer"]): line for line in found["summary"]}
    rows = [line.split() for line in printed.splitlines()]
    even = next(row for row in rows if row[:1] == ["optimal"])
    static = lines["static", "optimal"]
    assert [f"{static['partitions_deviation']:.2f}", f"{static['partitions_gain']:.1%}"] == even[1:3]
    (moved,) = [row for row in rows if row[:2] == ["add-20%", "optimal"]]
    assert f"{lines['add-20%', 'optimal']['moved_ratio']:.2%}" == moved[2]
    assert found["answer"] == printed.splitlines()[0]
    assert "your cluster: 6 nodes in 3 zones, 12 partitions of 1 resource, 24 replicas" == printed.splitlines()[2]


def test_the_preset_is_shortened(tmp_path):
    options = ("--topologies", 1, "--seeds", 2, "--scenarios", "static", "--balancers", "optimal", "--json")
    found = json.loads(run("evaluate", "--preset", "helix-paper", *options, folder=tmp_path).stdout)
    assert ["20-nodes-1", "20-nodes-2"] == [each["cluster"] for each in found["clusters"]]
    assert [None] * 2 == [found["summary"][0][name] for name in ("partitions_gain", "times_crush")]


def test_all_that_place_replicas_take_part_and_who_is_not_here_is_named(tmp_path, monkeypatch):
    for peer in asked.PEERS.values():
        monkeypatch.setattr(peer, "absent", lambda: "it is not installed")
    file = written(tmp_path, "s.toml", NODES + RESOURCE)
    found = json.loads(run("evaluate", "--scenario", file, "--scenarios", "static", "--json", folder=tmp_path).stdout)
    placing = [name for name in catalog.names() if catalog.get(name).takes != "subscriptions"]
    assert placing == sorted(line["balancer"] for line in found["summary"])
    assert dict.fromkeys(("swift", "ceph.crush", "ceph.upmap"), "it is not installed") == found["absent"]
    printed = run("evaluate", "--scenario", file, "--scenarios", "static", folder=tmp_path).stdout.decode()
    assert "swift: not available: it is not installed" in printed


def test_what_a_balancer_refuses_is_said_and_the_others_go_on(tmp_path):
    file = written(tmp_path, "s.toml", SMALL)
    options = ("--balancers", "kafka.sticky,optimal", "--scenarios", "static,add-1%", "--json")
    found = json.loads(run("evaluate", "--scenario", file, *options, folder=tmp_path).stdout)
    assert ["optimal", "optimal"] == [line["balancer"] for line in found["summary"]]
    assert [("kafka.sticky", "static"), ("kafka.sticky", "add-1%")] == [
        (each["balancer"], each["scenario"]) for each in found["refused"]
    ]


def test_where_all_that_were_asked_refuse_there_is_no_comparison(tmp_path):
    file = written(tmp_path, "s.toml", SMALL)
    options = ("--balancers", "kafka.sticky", "--scenarios", "static", "--json")
    done = run("evaluate", "--scenario", file, *options, folder=tmp_path)
    assert 1 == done.returncode
    assert "none of the balancers could place anything." == json.loads(done.stderr)["message"]
    assert ["kafka.sticky"] == [each["balancer"] for each in json.loads(done.stdout)["refused"]]


def test_a_scenario_that_cannot_be_is_left_out_with_the_reason_unless_it_was_asked_for(tmp_path):
    text = 'balancers = ["optimal"]\n' + NODES.replace('["z1"]', '["z0"]').replace('["z2"]', '["z0"]')
    file = written(tmp_path, "s.toml", text + RESOURCE.replace("replicas = 2", "replicas = 1"))
    done = run("evaluate", "--scenario", file, "--json", folder=tmp_path)
    found = json.loads(done.stdout)
    assert ["zone-loss"] == [each["scenario"] for each in found["refused"]]
    assert len(NAMES) - 1 == len(found["summary"])
    assert "zone-loss needs two zones" in refused(
        run("evaluate", "--scenario", file, "--scenarios", "zone-loss", folder=tmp_path)
    )


OWN = '[[scenario]]\nname = "x"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a file that is not empty"),
        ("x = [", "TOML"),
        (SMALL.replace("balancers", "balancer"), "Did you mean 'balancers'?"),
        (SMALL.replace("helix.crush", "helix.krush"), "s.toml: balancer is 'helix.krush'"),
        ('scenarios = ["add-2%"]\n' + SMALL, "s.toml: scenario is 'add-2%'"),
        ("scenarios = []\n" + SMALL, "scenarios is 'none', expected at least one"),
        (SMALL.replace("optimal", "helix.crush"), "each once"),
        ('scenarios = ["zone-lost"]\n' + SMALL, "Did you mean 'zone-loss'?"),
        ("scenarios = []\nscenario = 1\n" + SMALL, "[[scenario]]"),
        ('balancers = "optimal"\n' + NODES + RESOURCE, "a list of names"),
        (NODES, "resources is 0"),
        (SMALL + RESOURCE, "each once"),
        (SMALL.replace("partitions = 12", "partitions = 0"), "partitions of resource orders is 0"),
        (SMALL.replace("partitions = 12", 'partitions = "12"'), "partitions of resource orders is '12'"),
        (SMALL.replace("partitions = 12\n", ""), "partitions of resource orders is missing"),
        (SMALL.replace("partitions", "partition"), "Did you mean 'partitions'?"),
        (SMALL.replace("replicas = 2", "replicas = 4"), "resource orders: 4 replicas wanted in distinct zones"),
        (SMALL.replace("replicas = 2", "replicas = 0"), "replicas of resource orders is 0"),
        (SMALL.replace('"]\n', '"]\nweight = 0\n').replace('"optimal"]\nweight = 0', '"optimal"]'), "has none"),
        (SMALL.replace('id = "n3"', 'id = "n2"'), "node id is 'n2'"),
        (SMALL.replace('name = "orders"\n', ""), "name of a resource is missing"),
        (SMALL + OWN, "down, remove, weight or add"),
        (SMALL + OWN + 'down = ["n9"]\n', "node id is 'n9'"),
        (SMALL + OWN + 'remove = ["n9"]\n', "node id is 'n9'"),
        (SMALL + OWN + "weight = { n9 = 2 }\n", "node id is 'n9'"),
        (SMALL + OWN + "weight = { n1 = -2 }\n", "weight of node 'n1' is -2"),
        (SMALL + OWN + "weight = 2\n", "a table of ids and weights"),
        (SMALL + OWN + 'add = [{ id = "n1" }]\n', "node id is 'n1'"),
        (SMALL + OWN + "add = [1]\n", "tables headed [[add]]"),
        (SMALL + OWN + 'dwn = ["n1"]\n', "Did you mean 'down'?"),
        (SMALL + OWN + 'down = ["n0", "n1", "n2", "n3", "n4", "n5"]\n', "leaves no node"),
        (SMALL + OWN.replace('"x"', '"static"') + 'down = ["n1"]\n', "a name of its own"),
        (SMALL + (OWN + 'down = ["n1"]\n') * 2, "a name of its own"),
        (SMALL + OWN.replace("x", "one, two") + 'down = ["n1"]\n', "a name without a comma"),
    ],
)
def test_a_scenario_file_with_a_mistake_is_refused_before_anything_is_measured(text, words, tmp_path, monkeypatch):
    monkeypatch.setattr(BalancerTrial, "run", lambda *_: 1 / 0)
    file = written(tmp_path, "s.toml", text)
    message = refused(run("evaluate", "--scenario", file, folder=tmp_path))
    assert words in message
    assert "None" not in message.splitlines()[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "--preset"),
        (("--preset", "helix-paper", "--scenario", "s.toml"), "both"),
        (("--preset", "helix-papers"), "helix-paper"),
        (("--scenario", "no-such.toml"), "no such file"),
        (("--scenario", "."), "directory"),
        (("--scenario", "s.toml", "--topologies", "2"), "--topologies"),
        (("--preset", "helix-paper", "--topologies", "9"), "--topologies"),
        (("--preset", "helix-paper", "--topologies", "0"), "--topologies"),
        (("--preset", "helix-paper", "--seeds", "0"), "--seeds"),
        (("--preset", "helix-paper", "--balancers", "optimale"), "Did you mean 'optimal'?"),
        (("--preset", "helix-paper", "--balancers", "optimal,optimal"), "each once"),
        (("--preset", "helix-paper", "--balancers", ""), "balancer is ''"),
        (("--preset", "helix-paper", "--scenarios", "add-2%"), "Did you mean 'add-20%'?"),
        (("--preset", "helix-paper", "--html", "no-such-folder/page.html"), "--html"),
    ],
)
def test_options_with_a_mistake_are_refused_before_anything_is_measured(options, words, tmp_path, monkeypatch):
    monkeypatch.setattr(BalancerTrial, "run", lambda *_: 1 / 0)
    written(tmp_path, "s.toml", SMALL)
    assert words in refused(run("evaluate", *options, folder=tmp_path))


def test_an_interruption_leaves_no_page_and_says_so(tmp_path, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(BalancerTrial, "run", stopped)
    old = document("old", ()).decode()
    page = written(tmp_path, "page.html", old)
    file = written(tmp_path, "s.toml", SMALL)
    done = run("evaluate", "--scenario", file, "--html", page, folder=tmp_path)
    assert (130, b"") == (done.returncode, done.stdout)
    assert b"interrupted; each written file is unchanged or complete, and the output ends here." in done.stderr
    assert old == page.read_text()
    assert ["page.html", "s.toml"] == sorted(path.name for path in tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "1"])
def test_every_process_finds_the_same(measured, seed, tmp_path):
    done = subprocess.run(
        [*COMMAND, "evaluate", "--scenario", str(EXAMPLE), "--seeds", "2", "--json"],
        env={**os.environ, "PYTHONHASHSEED": seed}, cwd=tmp_path, capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    assert without_times(measured) == without_times(json.loads(done.stdout))


def without_times(found):
    """Return everything but what the clock said."""
    kept = {name: found[name] for name in ("clusters", "absent", "refused")}
    summary = [{k: v for k, v in line.items() if k not in ("seconds", "times_crush")} for line in found["summary"]]
    results = [{k: v for k, v in each.items() if k != "seconds"} for each in found["results"]]
    return kept, summary, results


FAKE = f"""#!{sys.executable}
import pathlib, sys
words = sys.argv[1:]
if "-c" in words:
    text = pathlib.Path(words[1]).read_text()
    assert text.count("zone zone") == 3 and text.count("item osd.") == 6, text
    pathlib.Path(words[3]).write_text("compiled")
else:
    last = int(words[words.index("--max-x") + 1])
    out = words[words.index("--weight") + 1] if "--weight" in words else None
    for x in range(last + 1):
        print(f"CRUSH rule 0 x {{x}} [{{','.join(n for n in ('0', '4') if n != out)}}]")
"""


def test_crushtool_is_asked_and_what_it_prints_is_read(tmp_path, monkeypatch):
    program = written(tmp_path, "crushtool", FAKE)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    own = '[[scenario]]\nname = "n4 fails"\ndown = ["n4"]\n'
    file = written(
        tmp_path, "s.toml", 'balancers = ["ceph.crush"]\nscenarios = ["n4 fails"]\n' + NODES + RESOURCE + own
    )
    done = run("evaluate", "--scenario", file, "--json", folder=tmp_path)
    (found,) = json.loads(done.stdout)["results"]
    assert (12, 24, 0) == (found["measures"]["lacking"], found["movement"]["replicas"], found["movement"]["extra"])


def test_a_map_that_crushtool_refuses_is_said(tmp_path, monkeypatch):
    written(tmp_path, "crushtool", "#!/bin/sh\necho syntax error >&2\nexit 1\n").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    file = written(tmp_path, "s.toml", NODES + RESOURCE)
    options = ("--balancers", "ceph.crush,optimal", "--scenarios", "static")
    printed = run("evaluate", "--scenario", file, *options, folder=tmp_path).stdout.decode()
    assert "ceph.crush: static: not measured: crushtool refuses the cluster: syntax error." in printed


def test_swift_keeps_zones_and_starts_from_what_was(tmp_path):
    pytest.importorskip("swift", reason="needs the package swift")
    file = written(tmp_path, "s.toml", NODES + RESOURCE)
    options = ("--balancers", "swift", "--scenarios", "static,disable-10%,add-20%,remove-and-return", "--json")
    found = json.loads(run("evaluate", "--scenario", file, *options, folder=tmp_path).stdout)
    static, *changed = found["results"]
    assert (0, 0.0) == (static["measures"]["lacking"], static["measures"]["partitions"]["deviation"])
    assert [True, True] == [0 < each["movement"]["moved"] <= 8 for each in changed[:2]]


@pytest.mark.parametrize("peer", [ceph, upmap], ids=lambda peer: peer.NAME)
def test_programs_of_ceph_keep_zones_and_leave_no_replica_on_a_node_that_is_down(peer, tmp_path):
    if peer.absent():
        pytest.skip(f"needs {peer.PROGRAM}: {peer.absent()}")
    text = NODES + RESOURCE.replace("12", "40") + RESOURCE.replace("orders", "users").replace("12", "30")
    file = written(tmp_path, "s.toml", f'balancers = ["{peer.NAME}"]\n' + text)
    options = ("--scenarios", "static,disable-10%,add-20%,remove-and-return", "--json")
    results = json.loads(run("evaluate", "--scenario", file, *options, folder=tmp_path).stdout)["results"]
    assert [0] * 4 == [each["measures"]["lacking"] for each in results]
    assert all(each["measures"]["partitions"]["peak_ratio"] < 2 for each in results)
    assert [True, True] == [0 < each["movement"]["moved"] for each in results[1:3]]
    assert results[1]["movement"]["extra"] == 0 or peer is upmap
