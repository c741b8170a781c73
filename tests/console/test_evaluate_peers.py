"""Peers are asked as their operators would: what has a number keeps it, and what they refuse is said."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from apportion import Node, Topology
from apportion.balance import Resource
from apportion.balance.evaluation import Cluster, State
from apportion.console.evaluate import ceph, swift, upmap
from apportion.console.evaluate import options as asked
from apportion.errors import CannotPlace
from tests.console.running import refused, run, written

NODES = [Node(f"n{number}", zone=(f"z{number % 4}",)) for number in range(8)]
CLUSTER = Cluster(name="c", topology=Topology(NODES), resources={"orders": Resource(40, 3)})
# All of the first zone go, and one comes whose zone sorts before all others.
AFTER = CLUSTER.topology.without("n0", "n4").add(Node("added", zone=("a",)))


def test_swift_keeps_the_numbers_of_zones():
    pytest.importorskip("swift", reason="needs the package swift")
    first = swift.ENTRANT.place(CLUSTER, State(topology=CLUSTER.topology), None)
    second = swift.ENTRANT.place(CLUSTER, State(topology=AFTER), first)
    zones, zones_after = ({dev["id"]: dev["zone"] for dev in placed.memory.builders["orders"].devs if dev}
                          for placed in (first, second))  # fmt: skip
    names = {number: node_id for node_id, number in second.memory.numbers.nodes.items()}
    assert {zones[number] for number in zones} == set(range(4))
    kept = {number: zone for number, zone in zones_after.items() if names[number] != "added"}
    assert kept == {number: zones[number] for number in kept}
    assert [4] == [zone for number, zone in zones_after.items() if names[number] == "added"]


@pytest.fixture
def maps(monkeypatch):
    """The text of every map that is compiled; no program is asked for anything."""
    found = []

    def run(program, *arguments, **_):
        if "-c" in arguments:
            found.append(Path(arguments[1]).read_text())
        elif "--createsimple" in arguments:
            Path(arguments[0]).write_text("map")
        return ""

    monkeypatch.setattr(ceph, "run", run)
    monkeypatch.setattr(upmap, "run", run)
    return found


def buckets_of(text):
    """Return the bucket id of each device of a map."""
    found, bucket = {}, None
    for words in map(str.split, text.splitlines()):
        if words[:1] == ["id"]:
            bucket = int(words[1])
        elif words[:1] == ["item"] and words[1].startswith("osd."):
            found[words[1]] = bucket
    return found


@pytest.mark.parametrize("peer", [ceph, upmap], ids=lambda peer: peer.NAME)
@pytest.mark.parametrize(
    "after", [State(topology=AFTER), State(topology=CLUSTER.topology, down=frozenset(["n0", "n4"]))]
)
def test_ceph_keeps_the_ids_of_zones(peer, after, maps):
    first = peer.ENTRANT.place(CLUSTER, State(topology=CLUSTER.topology), None)
    peer.ENTRANT.place(CLUSTER, after, first)
    before, now = map(buckets_of, maps)
    assert 4 == len(set(before.values()))
    assert 6 <= len(now)
    assert before == {**before, **{device: bucket for device, bucket in now.items() if device in before}}
    assert set(now.values()) - set(before.values()) == ({-6} if after.topology is AFTER else set())


def test_what_swift_refuses_is_said_and_the_others_go_on(tmp_path):
    pytest.importorskip("swift", reason="needs the package swift")
    nodes = "".join(f'[[node]]\nid = "n{number}"\n' for number in range(3))
    resource = '[[resource]]\nname = "orders"\npartitions = 8\nreplicas = 3\n'
    file = written(tmp_path, "s.toml", nodes + resource)
    options = ("--balancers", "swift,optimal", "--scenarios", "disable-1%,static", "--json")
    found = json.loads(run("evaluate", "--scenario", file, *options, folder=tmp_path).stdout)
    assert [("swift", "disable-1%")] == [(each["balancer"], each["scenario"]) for each in found["refused"]]
    assert found["refused"][0]["reason"].startswith("swift refuses the cluster: ")
    assert 3 == len(found["results"])


def test_a_ring_without_devices_is_refused():
    pytest.importorskip("swift", reason="needs the package swift")
    nobody = State(topology=CLUSTER.topology, down=frozenset(CLUSTER.topology.ids))
    with pytest.raises(CannotPlace, match="swift refuses the cluster"):
        swift.ENTRANT.place(CLUSTER, nobody, None)


def test_swift_is_imported_before_anything_is_timed():
    pytest.importorskip("swift", reason="needs the package swift")
    code = (
        "import sys; from apportion.console.evaluate import options as asked\n"
        "before = 'swift.common.ring' in sys.modules; asked._entrants(['swift'])\n"
        "print(before, 'swift.common.ring' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "False True" == done.stdout.strip()


@pytest.mark.parametrize("by_option", [True, False])
def test_nobody_left_to_measure_is_refused(by_option, tmp_path, monkeypatch):
    for peer in asked.PEERS.values():
        monkeypatch.setattr(peer, "absent", lambda: "it is on holiday")
    nodes, resource = '[[node]]\nid = "a"\n', '[[resource]]\nname = "orders"\npartitions = 8\n'
    text = nodes + resource if by_option else 'balancers = ["swift", "ceph.crush"]\n' + nodes + resource
    options = ("--balancers", "swift,ceph.crush") if by_option else ()
    said = refused(run("evaluate", "--scenario", written(tmp_path, "s.toml", text), *options, folder=tmp_path))
    assert ("--balancers is" if by_option else "s.toml: balancers is") in said
    assert "'swift,ceph.crush', expected one that is available" in said
    assert "swift: it is on holiday" in said


def test_replicas_that_ceph_leaves_on_a_node_that_is_down_are_not_measured(monkeypatch):
    monkeypatch.setattr(upmap, "run", lambda *_, **__: "1.0\t[0,1,2]\n")
    monkeypatch.setattr(upmap, "compiled_map", lambda *_: Path("crush"))
    monkeypatch.setattr(upmap, "_write", lambda path, *_, **__: path.write_text("map"))
    first = upmap.ENTRANT.place(CLUSTER, State(topology=CLUSTER.topology), None)
    assert ("n0", "n1", "n2") == first.resources["orders"].preference_lists["orders_0"]
    for state in (State(topology=AFTER), State(topology=CLUSTER.topology, down=frozenset(["n0"]))):
        with pytest.raises(CannotPlace, match="keeps exceptions for n0, which is gone or down"):
            upmap.ENTRANT.place(CLUSTER, state, first)
