"""The numbers that the docs of groups and stores name are the numbers of the code."""

import re
from importlib import import_module
from math import log2
from pkgutil import walk_packages

import pytest

import apportion
from apportion.groups import crash_loops, group, opening, session
from apportion.groups.controller import arrivals, publish_owners
from apportion.groups.view import records
from apportion.model import topology
from apportion.placement import directory, maglev, multiprobe, slots
from apportion.placement.layouts import envoy, envoy_maglev, nginx
from apportion.runtime import io_thread, signals
from apportion.stores import lookout, requests, speed, task_once, task_values
from apportion.stores.etcd import administration as etcd_administration
from apportion.stores.etcd import store as etcd
from apportion.stores.etcd import wire
from apportion.stores.lanes import values as lanes
from apportion.stores.memory import store as memory
from apportion.stores.postgres import door, leases, link, links, migrations
from apportion.stores.postgres import store as postgres
from apportion.stores.redis import link as redis_link
from apportion.stores.redis import scripts
from apportion.stores.redis import store as redis
from apportion.stores.schedules import values as schedules
from apportion.stores.sqlite import administration as sqlite_administration
from apportion.stores.sqlite import checkpoint, ledger
from apportion.stores.sqlite import store as sqlite
from apportion.tables import follower, layout
from tests.docs.blocks import ROOT

WORDS = {0.1: "a tenth", 0.25: "a quarter", 1.0: "a second", 2: "two", 60.0: "a minute", 8_000_000: "eight megabytes"}
KEPT_DAYS = {7.0: "seven"}[task_values.KEPT_MS / 86_400_000]
STORES = [each.CAPABILITIES for each in (memory, sqlite, postgres, etcd, redis)]
LIMITS = [(f"{each.max_value_bytes / 1e6:.7g}", f"{each.max_commit_bytes / 1e6:.7g}") for each in STORES]
POSTGRES_KEPT = re.search(r"at_revision - (\d+)\b.*held > (\d+)\b", migrations._COMMIT, re.DOTALL).groups()
LEAST = f"{leases._LEAST_SECONDS:g} s for a renewal and {leases._LEAST_COMMIT_SECONDS:g} s for a commit"


def spaced(number):
    return f"{number:,}".replace(",", " ")


def kept(module):
    return f"{spaced(module.KEPT_REVISIONS)} revisions, {module.KEPT_BYTES / 1e6:g} MB"


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("algorithms/directory", f"at most 2**{log2(directory.MAX_EXCEPTIONS):g} of them"),
        ("commands", f"request   ms (median of {speed.TRIES})"),
        ("groups/commands", f"signals within {WORDS[signals.ONE_SIGNAL_SECONDS]} count as one"),
        ("groups/guarantees", f"earlier, by {WORDS[session.MARGIN_RATIO]} of that time"),
        ("groups/guarantees", f"The deadline is {1 - session.MARGIN_RATIO:g} of the `lease_ttl` after"),
        ("groups/operate", f"deadline, {1 - session.MARGIN_RATIO:g} of the `lease_ttl` after"),
        ("groups/guarantees", f"{WORDS[1 / session.RENEWALS_PER_TTL]} of the `lease_ttl` later at most"),
        ("groups/guarantees", f"each within {WORDS[crash_loops.HEALTHY_SECONDS]} of taking it"),
        ("groups/guarantees", f"1 s, 2 s, 4 s, up to {WORDS[crash_loops.LONGEST_WAIT_SECONDS]}."),
        ("groups/guarantees", f"keep coming within {arrivals.STILL_SECONDS:g} s of each other"),
        ("groups/guarantees", f"come for `settle` ({opening.SETTLE.total_seconds():g} s)"),
        ("groups/guarantees", f"at the latest {arrivals.LONGEST_SECONDS:g} s after the first"),
        ("groups/guarantees", f"| {STORES[2].min_ttl_seconds:g} s; {STORES[3].min_ttl_seconds:g} s on etcd"),
        ("groups/guarantees", f"on PostgreSQL also {postgres._ROUND_TRIPS_PER_TTL} round trips"),
        ("groups/guarantees", f"has at most {spaced(records.MAX_PARTITIONS)} partitions"),
        ("groups/index", f"at most {group.MOST_THREADS} at once"),
        ("groups/index", f"latest {arrivals.LONGEST_SECONDS:g} s after the first | {opening.SETTLE.seconds} s |"),
        ("groups/index", f"for at most this long | no, {opening.GRACE.seconds} s |"),
        ("groups/index", f"that was killed keeps its partitions | {opening.TTL.seconds} s |"),
        ("groups/index", f"before it is cancelled | {opening.DRAIN.seconds} s |"),
        ("groups/index", f"waits up to {io_thread._SILENT_SECONDS + io_thread._ENDINGS_SECONDS:g} s for that"),
        ("groups/tables", f"tries again every {publish_owners.AGAIN_SECONDS:g} s"),
        ("groups/tables", f"the table of its owners every {publish_owners.CHECK_SECONDS:g} s"),
        ("groups/tables", f"follower asks every {follower.CONFIRM_SECONDS:g} s"),
        ("groups/tables", f"at most {layout.MAX_DELTAS} of them"),
        ("stores/index", "in a commit | " + " | ".join(spaced(each.max_operations) for each in STORES) + " |"),
        ("stores/index", " | ".join(f"{value} MB; {commit} MB" for value, commit in LIMITS)),
        ("stores/index", " | ".join(f"{each.min_ttl_seconds:g} s{'⁴' * (each is STORES[3])}" for each in STORES)),
        ("stores/index", f"| {spaced(memory._KEPT_REVISIONS)} revisions | {kept(ledger)} |"),
        ("stores/index", f"| {spaced(int(POSTGRES_KEPT[0]))} revisions, {int(POSTGRES_KEPT[1]) >> 20} MiB | until"),
        ("stores/index", f"until a compaction | {kept(scripts)} |"),
        ("stores/index", f"A key is at most {spaced(requests.MAX_KEY_BYTES)} bytes"),
        ("stores/sqlite", f"larger than {WORDS[checkpoint._LARGE_BYTES]} and than "),
        ("stores/sqlite", f"and than {'twice' if checkpoint._LARGE_PER_FILE == 2 else ''} the file"),
        ("stores/sqlite", f"in files up to {sqlite_administration._CHECKED_BYTES >> 20} MB"),
        ("stores/sqlite", f"{int(1 / lookout.LONGEST_PAUSE_SECONDS)} times a second when all is"),
        ("stores/postgresql", f"PostgreSQL {door.OLDEST_VERSION} or newer"),
        ("stores/postgresql", f"closed after {WORDS[links.REST_SECONDS]} of rest"),
        ("stores/postgresql", f"does so every {WORDS[link.LOOK_SECONDS]} seconds"),
        ("stores/postgresql", f"{WORDS[leases._PATIENCE_RATIO]} of the time to live"),
        ("stores/postgresql", f"The least is {LEAST}"),
        ("stores/etcd", "etcd {}.{} or newer".format(*etcd_administration._OLDEST)),
        ("stores/etcd", f"closed after {WORDS[wire._REST_SECONDS]} of rest"),
        ("stores/etcd", f"{WORDS[wire._PATIENCE_PER_TTL]} of the shortest lease"),
        ("stores/etcd", f"at most {wire.USUAL_PATIENCE_SECONDS:g} s |"),
        ("stores/etcd", f"{etcd.CAPABILITIES.max_operations} operations, {LIMITS[3][1]} MB"),
        ("stores/etcd", f"{etcd_administration._USUAL_QUOTA_BYTES >> 30} GB by default"),
        ("stores/redis", "one Redis server, {}.{} or newer".format(*redis_link.OLDEST)),
        ("tasks/commands", f"last slots of a schedule, at most {schedules.KEPT_MARKS}, oldest"),
        ("tasks/cron-on-many-nodes", f"{schedules.MOST_DUE_SCHEDULES} fire per commit"),
        ("tasks/index", f"`task.once` at most {task_once.MOST_ONCE_BYTES / 1024:g} KiB."),
        ("tasks/index", f"read for {KEPT_DAYS} days."),
        ("tasks/tenants", f"A key is 1 to {spaced(lanes.MOST_KEY_BYTES)} bytes of UTF-8."),
        ("topology-file", f"outermost first, at most {topology.MAX_ZONE_LEVELS} |"),
        ("topology-file", f"0, or {topology.MIN_WEIGHT:.6f} to {topology.MAX_WEIGHT:.0f} |"),
        ("topology-file", f"at most {topology.MAX_NODES} nodes"),
        ("topology-file", f"Names are 1 to {topology.MAX_NAME_BYTES} bytes"),
        ("algorithms/slots", f"The first assignment has {slots.LEAST_SLOTS} slots."),
        ("algorithms/slots", f"If {slots.SLOTS_PER_NODE} slots per node are more"),
        ("algorithms/multiprobe", f"A key has {multiprobe.DEFAULT_PROBES} probes."),
        ("algorithms/maglev", f"prime, by default {spaced(maglev.DEFAULT_ENTRIES)}."),
        ("algorithms/envoy", f"at most {envoy.LARGEST_RING} points"),
        ("algorithms/envoy_maglev", f"a prime of at most {envoy_maglev.MOST_SLOTS}, by default"),
        ("algorithms/envoy_maglev", f"by default {envoy_maglev.DEFAULT_SLOTS}."),
        ("algorithms/nginx", f"{nginx.POINTS_PER_WEIGHT} points per unit of weight"),
    ],
)  # fmt: skip
def test_a_number_in_the_docs_is_that_of_the_code(page, words):
    assert " ".join(words.split()) in " ".join((ROOT / "docs" / f"{page}.md").read_text().split())


def test_the_docs_name_the_promises_that_each_store_makes():
    rows = re.findall(r"^\| `(\w+)`: [^|]+\|(.*)\|$", (ROOT / "docs" / "stores" / "index.md").read_text(), re.MULTILINE)
    said = {name: ["yes" in cell for cell in cells.split("|")] for name, cells in rows}
    assert 7 == len(said)
    assert {name: [getattr(each, name) for each in STORES] for name in said} == said


def test_every_time_size_and_ratio_of_the_code_is_above_zero_and_no_pause_begins_longer_than_its_longest():
    sizes = re.compile(r"_?[A-Z][A-Z_]*(SECONDS|BYTES|RATIO|PER_TTL)")
    for each in walk_packages(apportion.__path__, "apportion."):
        named = {name: value for name, value in vars(import_module(each.name)).items() if sizes.fullmatch(name)}
        numbers = {name: value for name, value in named.items() if isinstance(value, (int, float))}
        assert [] == [name for name, value in numbers.items() if value <= 0], each.name
        longest = min((value for name, value in numbers.items() if "LONGEST_PAUSE" in name), default=float("inf"))
        assert [] == [name for name, value in numbers.items() if "PAUSE_SECONDS" in name and value > longest], each.name
