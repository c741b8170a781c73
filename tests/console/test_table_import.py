"""What clusters print of themselves becomes their table: keys route as in the cluster, and nothing is passed over."""

import json
from functools import partial
from pathlib import Path

import pytest

from apportion import Topology, balance, decode, encode, placement
from apportion.console.files.readers.memcached import read_memcached
from apportion.console.files.readers.nodetool import read_token_ring
from apportion.console.files.readers.redis_cluster import read_cluster_nodes
from apportion.console.options.composition import compose_from, recomposed
from apportion.errors import InvalidInput, UnknownOption
from apportion.model.table import Table
from apportion.placement import catalog
from apportion.placement.frozen import Frozen
from apportion.placement.layouts.cassandra import Cassandra, NetworkTopologyStrategy, SimpleStrategy
from apportion.placement.layouts.envoy import Envoy
from apportion.placement.layouts.ketama import Ketama
from apportion.placement.layouts.nginx import Nginx
from apportion.placement.layouts.redis_slots import RedisSlots, slot
from tests.console.running import refused, run, written

SAMPLES = Path(__file__).parent / "samples"
REDIS, MIGRATING, SUSPECTED = (
    SAMPLES / f"redis-cluster-nodes-{name}.txt" for name in ("7.0", "migrating", "suspected")
)
RING, DESCRIBERING, RANDOM = (
    SAMPLES / f"nodetool-{name}.txt" for name in ("ring-4.1", "describering-4.1", "ring-random-partitioner")
)
SERVERS = "cache1:11211 3\n10.0.0.2:11211, cache3:11212\n"
KEYS = ["tenant-42", "{user1}.name", "", "é", *(f"k{number}" for number in range(500))]


def imported(folder, file, form, *options):
    """Return the table that `table import` saves of a file."""
    done = run("table", "import", file, "--format", form, *options, folder=folder)
    assert 0 == done.returncode, done.stderr.decode()
    return decode((folder / "table.json").read_bytes(), Table)


def routed(folder, name="table.json"):
    """Return what `route --table` prints for all keys."""
    written(folder, "keys", "".join(f"{key}\n" for key in KEYS))
    done = run("route", "--table", name, "--keys", "keys", folder=folder)
    return [line.rpartition("\t")[2] for line in done.stdout.decode().splitlines()]


@pytest.mark.slow
def test_a_redis_cluster_routes_explains_and_plans_as_the_cluster_would(tmp_path):
    table = imported(tmp_path, REDIS, "redis-cluster")
    cluster = RedisSlots(read_cluster_nodes(REDIS).assignment)
    assert (table, cluster.route_many(KEYS)) == (cluster.table(), routed(tmp_path))
    explained = json.loads(run("explain", "--table", "table.json", "{user1}.x", "--json", folder=tmp_path).stdout)
    assert ("redis_slots", cluster.route("user1")) == (explained["placement"], explained["node"])
    done = run("plan", "--table", "table.json", "--add", "n7", "-o", "plan.json", "--json", folder=tmp_path)
    change = json.loads(done.stdout)
    assert (2, 0.25, 0.0) == (done.returncode, change["moved_ratio"], change["stray_ratio"])
    assert {"n7"} == {move["target"] for move in change["moves"]}
    assert 0 == run("apply", "plan.json", folder=tmp_path).returncode
    bigger = RedisSlots(balance.slots(cluster.topology.add("n7"), previous=cluster.assignment))
    assert bigger.table() == decode((tmp_path / "table.json").read_bytes(), Table)
    starts = [int(move["start"], 16) >> 50 for move in change["moves"]]
    assert all(bigger.assignment[each] == ("n7",) for each in starts)


def test_a_memcached_list_is_the_clients_circle_and_can_be_planned_on(tmp_path):
    table = imported(tmp_path, written(tmp_path, "servers", SERVERS), "memcached")
    servers = Ketama(read_memcached(tmp_path / "servers"), layout="libmemcached")
    assert (servers.table(), servers.route_many(KEYS)) == (table, routed(tmp_path))
    done = run("plan", "--table", "table.json", "--add", "new:11211", "-o", "plan.json", folder=tmp_path)
    assert 2 == done.returncode
    run("apply", "plan.json", folder=tmp_path)
    assert servers.on(servers.topology.add("new:11211")).table() == decode(
        (tmp_path / "table.json").read_bytes(), Table
    )


@pytest.mark.parametrize(
    ("options", "strategy"),
    [
        ((), SimpleStrategy(1)),
        (("--replication", "3"), SimpleStrategy(3)),
        (("--replication", "europe-west1=2,us-east=1"), NetworkTopologyStrategy({"europe-west1": 2, "us-east": 1})),
        (("--replication", "us-east=2"), NetworkTopologyStrategy({"us-east": 2})),
    ],
)
def test_a_ring_is_the_clusters_table_of_replicas(options, strategy, tmp_path):
    table = imported(tmp_path, RING, "nodetool-ring", *options)
    found = read_token_ring(RING)
    cluster = Cassandra(found.topology, tokens=found.tokens, strategy=strategy)
    assert (cluster.replica_table(), cluster.route_many(KEYS)) == (table, routed(tmp_path))
    explained = json.loads(run("explain", "--table", "table.json", "k1", "--json", folder=tmp_path).stdout)
    assert cluster.replicas("k1") == (explained["node"], *explained["next"])
    assert ("table", f"{cluster.explain('k1').hash:016x}") == (explained["placement"], explained["hash"])


def test_what_describering_prints_is_the_table_of_its_ring_under_the_strategy(tmp_path):
    ranges = imported(tmp_path, DESCRIBERING, "nodetool-describering")
    ring = imported(tmp_path, RING, "nodetool-ring", "--replication", "europe-west1=2,us-east=1")
    assert ring == ranges
    replicas = read_token_ring(DESCRIBERING).replicas
    assert {token: ranges.owners(token + 2**63) for token in replicas} == replicas
    assert ranges.owners(0) == ranges.owners(2**64 - 1) == replicas[min(replicas)]


def test_the_last_token_of_all_ends_the_table(tmp_path):
    detail = "EndpointDetails(host:{0}, datacenter:d, rack:r)"
    line = "TokenRange(start_token:{1}, end_token:{2}, endpoints:[{0}], rpc_endpoints:[x], "
    line += f"endpoint_details:[{detail}])"
    text = "\n".join(line.format(*each) for each in (("a", -7, 2**63 - 1), ("b", 2**63 - 1, -7)))
    table = imported(tmp_path, written(tmp_path, "ranges", text), "nodetool-describering")
    assert ((0, 2**63 - 6), ((1,), (0,))) == (table.starts, table.rows)


def test_two_rings_are_compared_and_a_plan_on_one_is_refused_with_the_way_out(tmp_path):
    later = RING.read_text().replace("  Warning", "10.0.0.15:7000 1a Up Normal ? ? 42\n  Warning")
    for name, file in (("before.json", RING), ("after.json", written(tmp_path, "later", later))):
        assert 0 == run("table", "import", file, "--format", "nodetool-ring", "-o", name, folder=tmp_path).returncode
    printed = run("table", "diff", "before.json", "after.json", folder=tmp_path).stdout.decode()
    assert "stray 0.00%, 1 ranges, 5 -> 6 nodes" in printed
    message = refused(run("plan", "--table", "before.json", "--add", "10.0.0.15:7000", folder=tmp_path))
    assert "apportion table diff OLD NEW" in message
    assert 0 == run("table", "export", "--table", "before.json", "--csv", "-o", "t.csv", folder=tmp_path).returncode


LAYOUTS = {
    "libketama": Ketama,
    "libmemcached": partial(Ketama, layout="libmemcached"),
    "nginx": Nginx,
    "envoy": Envoy,
    "redis_slots": lambda nodes: RedisSlots(balance.slots(Topology(nodes), count=16_384)),
}


@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS)
def test_the_placement_of_a_layouts_table_is_found_again(make):
    built = make(["a:11211", "b:11212", "c:80"])
    table = decode(encode(built.table()), Table)
    assert built == compose_from(table, catalog.hasher(table.hasher))
    answers = Frozen(table)
    assert built.route_many(KEYS) == [answers.route(key) for key in KEYS]
    explained = answers.explain("k1")
    assert (built.route("k1"), built.explain("k1").hash) == (explained.owner, explained.hash)
    assert built.explain("k1").range == explained.range


@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS)
def test_a_table_that_no_layout_makes_is_not_taken_for_one(make):
    table = make(["a:11211", "b:11212", "c:80"]).table()
    other = Table(topology=table.topology, hasher=table.hasher, starts=(0, 2**63), rows=((0,), (1,)))
    assert recomposed(other, catalog.hasher(table.hasher)) is None
    with pytest.raises(InvalidInput, match="--table is") as caught:
        compose_from(other, catalog.hasher(table.hasher))
    way_out = {"md5-first-word": "plan --placement ketama", "crc32": "plan --placement nginx", "xxh64": "--vnodes"}
    assert way_out.get(table.hasher, "table diff") in caught.value.hint


def test_vnodes_beside_a_foreign_table_are_refused(tmp_path):
    imported(tmp_path, written(tmp_path, "servers", SERVERS), "memcached")
    for command in (("plan",), ("explain", "k")):
        message = refused(run(*command, "--table", "table.json", "--vnodes", "3", folder=tmp_path))
        assert "no value: the table is made of md5-first-word positions" in message


def test_the_hasher_of_every_table_is_found_by_its_label():
    for name in placement.names():
        spec = placement.get(name)
        if spec.takes == "topology":
            hasher = spec(["a:80", "b:80"]).hasher
            assert (hasher.label, hasher(b"k")) == (
                catalog.hasher(hasher.label).label,
                catalog.hasher(hasher.label)(b"k"),
            )
    assert slot("k") == catalog.hasher("redis-slot")(b"k")
    assert Cassandra(["a"], tokens={"a": [0]}).hasher == catalog.hasher("cassandra-murmur3")
    with pytest.raises(UnknownOption, match="Did you mean 'redis-slot'"):
        catalog.hasher("redis-slots")
    with pytest.raises(InvalidInput, match="crc32 takes no secret"):
        catalog.hasher("crc32", key=b"0123456789abcdef")


def test_a_csv_of_a_layouts_table_is_read_back_under_its_label(tmp_path):
    imported(tmp_path, REDIS, "redis-cluster")
    before = routed(tmp_path)
    run("table", "export", "--table", "table.json", "--csv", "-o", "t.csv", folder=tmp_path)
    nodes = ",".join(read_cluster_nodes(REDIS).topology.ids)
    back = run("table", "import", "t.csv", "--nodes", nodes, "--hasher", "redis-slot", "-o", "b.json", folder=tmp_path)
    assert (0, before) == (back.returncode, routed(tmp_path, "b.json"))
    assert "Did you mean" in refused(
        run("table", "import", "t.csv", "--nodes", "a", "--hasher", "crc-32", folder=tmp_path)
    )


def test_what_a_table_has_no_room_for_is_said(tmp_path):
    ring = run("table", "import", RING, "--format", "nodetool-ring", folder=tmp_path)
    assert ring.stdout.startswith(b"10.0.0.14:7000 is not up, but still owns its tokens\n")
    options = ("table", "import", MIGRATING, "--format", "redis-cluster", "--accept-migrating", "--json")
    notes = json.loads(run(*options, folder=tmp_path).stdout)["notes"]
    assert 4 == len(notes)
    assert (
        "slot 93 is moving to ac83c0917c402d64f07ae3645f563c99c677102a; here it stays with its present owner"
        == notes[-1]
    )
    assert notes[0].endswith(" slots: 5461, replicas: 1")
    printed = run(
        "table", "import", written(tmp_path, "s", SERVERS), "--format", "memcached", "--json", folder=tmp_path
    )
    assert "notes" not in json.loads(printed.stdout)


FOREIGN = ("memcached", "nodetool-describering", "nodetool-ring", "redis-cluster")


@pytest.mark.parametrize("form", FOREIGN)
@pytest.mark.parametrize(
    "option", [("--nodes", "a,b"), ("--topology", "t.toml"), ("--hasher", "xxh3-64"), ("--hasher-key-file", "secret")]
)
def test_nodes_and_hash_functions_beside_a_format_that_has_its_own_are_refused(form, option, tmp_path):
    message = refused(run("table", "import", "file", "--format", form, *option, folder=tmp_path))
    assert f"{option[0]} is '{option[1]}', expected no value, with --format {form}" in message
    assert not (tmp_path / "table.json").exists()


TAKERS = {
    "--replication": ("nodetool-ring", "3"),
    "--accept-suspected": ("redis-cluster",),
    "--accept-migrating": ("redis-cluster",),
}


@pytest.mark.parametrize("form", ["csv", *FOREIGN])
@pytest.mark.parametrize("option", TAKERS)
def test_an_option_of_another_format_is_refused(form, option, tmp_path):
    taker, *value = TAKERS[option]
    message = refused(run("table", "import", "file", "--format", form, option, *value, folder=tmp_path))
    is_refused = f"expected no value, with --format {form}." in message
    assert (form != taker) == is_refused
    if is_refused:
        assert f"or pass --format {taker}" in message


def cluster_line(node_id, slots, flags="master"):
    return f"{node_id * 40} 10.0.0.1:6379@16379 {flags} - 0 0 1 connected {slots}\n"


ROWS = "Datacenter: dc1\n10.0.0.1 r1 Up Normal ? ? -5\n10.0.0.2 r1 Up Normal ? ? 5\n"
BAD = {
    "slots with a gap": ("redis-cluster", cluster_line("a", "0-99 101-16383"), "slot is 100, expected a slot with"),
    "slots of two": ("redis-cluster", cluster_line("a", "0-16383") + cluster_line("b", "7"), "slot is 7, expected n"),
    "a slot too high": ("redis-cluster", cluster_line("a", "0-16384"), "line 1 of cluster nodes is '0-16384'"),
    "an owner that is down": ("redis-cluster", cluster_line("a", "0-16383", "master,fail"), "an owner that is up"),
    "an owner that is suspected": ("redis-cluster", SUSPECTED.read_text(), "(on the command line: --accept-suspected)"),
    "slots on their way": ("redis-cluster", MIGRATING.read_text(), "(on the command line: --accept-migrating)"),
    "no cluster": ("redis-cluster", "ERR This instance has cluster support disabled\n", "line 1 of cluster nodes"),
    "a rack missing": ("nodetool-ring", ROWS.replace("10.0.0.2 r1", "10.0.0.2"), "line 3 of the nodetool output"),
    "a datacenter missing": ("nodetool-ring", ROWS.partition("\n")[2], "expected a line 'Datacenter: ...' above"),
    "a node in two racks": ("nodetool-ring", f"{ROWS}10.0.0.1 r2 Up Normal ? ? 9\n", "is 'dc1/r2', expected dc1/r1"),
    "a token twice": ("nodetool-ring", ROWS.replace(" 5", " -5"), "output is -5, expected another"),
    "a node that joins": ("nodetool-ring", ROWS.replace("Normal", "Joining"), "is 'Joining', expected Normal"),
    "a line cut": ("nodetool-ring", ROWS[:-4], "line 3 of the nodetool output"),
    "tokens of bytes": ("nodetool-ring", ROWS.replace(" 5", " 6b"), "Tokens of ByteOrderedPartitioner are not read"),
    "tokens of 127 bits": ("nodetool-ring", RANDOM.read_text(), "Tokens of RandomPartitioner do not fit into a table"),
    "describering as a ring": ("nodetool-ring", DESCRIBERING.read_text(), "expected nodetool-describering, the"),
    "a ring as describering": ("nodetool-describering", ROWS, "expected nodetool-ring, the format of this file"),
    "a describering cut": ("nodetool-describering", DESCRIBERING.read_text()[:-400], "of the nodetool output"),
    "no port": ("memcached", "cache1 2\n", "server list, line 1 is 'cache1', expected host:port"),
    "a server twice": ("memcached", "a:1\na:1 2\n", "server list, line 2"),
    "no text": ("memcached", b"\xff", "expected UTF-8"),
    "an empty file": ("redis-cluster", b"", "expected a file that is not empty"),
}  # fmt: skip


@pytest.mark.parametrize(("form", "text", "says"), BAD.values(), ids=BAD)
def test_bad_output_is_refused_and_nothing_is_written(form, text, says, tmp_path):
    written(tmp_path, "file", text)
    assert says in refused(run("table", "import", "file", "--format", form, folder=tmp_path))
    assert not (tmp_path / "table.json").exists()


REPLICATIONS = {
    "2=": "whole numbers", "dc1=x": "whole numbers", "x": "whole numbers", "-1": "whole numbers",
    "dc1=1,dc1=2": "each datacenter once", "=3": "each datacenter once", "dc1=1,": "each datacenter once",
    "dc1=²": "whole numbers", "0": "a whole number of at least 1", "dc1=0": "at least 1 in all",
    "3": "--replication is 3, expected at most 2", "dc1=3": "--replication in dc1 is 3, expected at most 2",
    "dc2=1": "datacenter is 'dc2', expected one of dc1", "9" * 5000: "whole numbers",
}  # fmt: skip


@pytest.mark.parametrize(("text", "says"), REPLICATIONS.items(), ids=lambda text: text[:20])
def test_a_replication_that_the_ring_cannot_have_is_refused(text, says, tmp_path):
    written(tmp_path, "ring", ROWS)
    options = ("--format", "nodetool-ring", f"--replication={text}")
    assert says in refused(run("table", "import", "ring", *options, folder=tmp_path))


def test_a_misspelt_format_names_the_nearest(tmp_path):
    assert "Did you mean 'redis-cluster'" in refused(
        run("table", "import", "f", "--format", "redis-clutser", folder=tmp_path)
    )
