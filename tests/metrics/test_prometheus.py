"""Metrics: every name that the docs promise is there, with the right value, and no label grows with the work."""

from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from apportion import Ring, sync
from apportion.metrics.prometheus import LOOKUPS, ROWS, GroupMetrics, TableMetrics, timed

DOCS = Path(__file__).parents[2] / "docs" / "groups" / "metrics.md"


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'g.db'}"


def scraped(*collectors):
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    lines = generate_latest(registry).decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


@pytest.mark.slow
def test_a_group_says_who_is_there_and_what_moved(url):
    ttl = timedelta(seconds=1)
    with sync.open_group(url, "g", partitions=8, member_id="a", lease_ttl=ttl) as first:
        first.wait_until_settled()
        with sync.open_group(url, "g", partitions=8, member_id="b", lease_ttl=ttl) as second:
            second.wait_until_settled()
            first.wait_until_settled()
            metrics = scraped(GroupMetrics(first))
    values = {name.removeprefix("apportion_group_").partition("{")[0]: value for name, value in metrics.items()}
    expected = {"members": 2, "owned_partitions": 4, "drifting_partitions": 0, "orphaned_partitions": 0}
    expected |= {"quarantined_partitions": 0, "is_controller": 1, "gained_partitions_total": 8, "sessions_total": 1}
    expected |= {"lost_partitions_total": 4, "handover_seconds_count": 4, "orphan_seconds_count": 0}
    assert expected == {name: values[name] for name in expected}
    assert 0 < values["session_seconds_left"] <= 1
    assert all('group="g"' in name for name in metrics)


def test_a_table_says_its_version_and_a_lookup_how_long_it_took(url):
    ring = Ring(["a", "b"])
    sync.publish(url, "tenants", ring.table())
    with sync.follow(url, "tenants") as table:
        before = LOOKUPS._sum.get()
        assert ring.route("k") == timed(table.route)("k")
        assert before < LOOKUPS._sum.get()
        metrics = scraped(TableMetrics("tenants", table))
    assert (1.0, 0.0) == tuple(
        metrics[f'routing_table_{name}{{table="tenants"}}'] for name in ("version", "drift_versions")
    )


def test_every_metric_is_documented_and_no_other(url):
    with sync.open_group(url, "g", partitions=2) as group:
        group.wait_until_settled()
        with sync.follow(url, "g") as table:
            names = scraped(GroupMetrics(group), TableMetrics("g", table))
    bare = {name.partition("{")[0] for name in names} - {name for name in names if "_created" in name}
    ours = {name.removesuffix("_count").removesuffix("_sum") for name in bare if not name.endswith("_created")}
    ours |= {LOOKUPS._name, ROWS._name}
    documented = {line.split("`")[1] for line in DOCS.read_text().splitlines() if line.startswith("| `")}
    assert ours == documented
