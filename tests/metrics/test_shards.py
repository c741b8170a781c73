"""Metrics of shards: every name that the docs promise is there, with the right value, and no label grows with work."""

import asyncio
import re
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy import select

import apportion
from apportion.errors import InvalidInput, StaleRoute
from apportion.metrics import ShardMetrics
from apportion.metrics import shards as metrics
from apportion.shards import admin
from apportion.shards.pins import statistics as counts
from apportion.shards.pins.statistics import FenceWait, RouterStatistics
from tests.shards.moved_slots import FR, ends, switch, write
from tests.shards.sample import SET, Base, Files, Place

DOCS = Path(__file__).parents[2] / "docs" / "shards" / "metrics.md"


class Cut(Exception):
    """The end of a mover."""


def scraped(collector):
    """Return the values of a scrape, by name without the label of the set."""
    registry = CollectorRegistry()
    registry.register(collector)
    lines = [each for each in generate_latest(registry).decode().splitlines() if not each.startswith("#")]
    assert all(f'="{SET}"' in line for line in lines)
    pairs = [line.removeprefix("apportion_shards_").rpartition(" ") for line in lines]
    return {re.sub(r'(set|table)="[^"]*",?', "", name).replace("{}", ""): float(value) for name, _, value in pairs}


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Let a scrape wait for the count of rows on a busy machine too."""
    monkeypatch.setattr(metrics, "_MOST_SECONDS", 60.0)


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.fixture
def router(files):
    with apportion.sync.open_shards(files.url, SET, base=Base) as router:
        yield router


def act(name, files, *words, **options):
    return asyncio.run(getattr(admin, name)(files.url, SET, *words, **options))


def begin(files, step):
    """Begin to move the slots of shard one, and end the mover after a step."""

    def cut(event):
        if event.step == step:
            raise Cut

    plan = act("plan", files, weights={"one": 0.0})
    with pytest.raises(Cut):
        act("apply", files, plan, observer=cut)


def test_sessions_and_stale_routes_are_counted(files, router):
    slot, here, there = ends(router)
    router.run(FR, write)
    with router.session(FR) as session:
        session.scalars(select(Place)).all()
        session.commit()
        switch(files, slot, here, there)
        with pytest.raises(StaleRoute):
            session.scalars(select(Place)).all()
        session.rollback()
        with pytest.raises(InvalidInput):
            session.scalars(select(Place)).all()
    values = scraped(ShardMetrics(router))
    assert (2.0, 1.0) == (values["sessions_total"], values["stale_routes_total"])
    assert (2.0, 0.0) == (values["routing_table_version"], values["fence_seconds_count"])


def test_a_session_in_a_block_of_pin_is_one_session(router):
    with router.pin(FR):
        router.session().close()
    assert 1 == router.statistics.sessions


def test_sessions_of_an_async_router_are_counted(files):
    async def main():
        async with apportion.open_shards(files.url, SET, base=Base) as router:
            async with router.session(FR) as session:
                session.add(Place(country=FR))
                await session.commit()
            return await asyncio.to_thread(scraped, ShardMetrics(router))

    assert 1.0 == asyncio.run(main())["sessions_total"]


def test_the_wait_for_a_fenced_slot_is_measured_once(files, router):
    slot, here, _ = ends(router)
    files.state(here, slot, "fenced")
    writer = threading.Thread(target=router.run, args=(FR, write))
    writer.start()
    writer.join(0.1)
    files.sql(here, "UPDATE apportion_slot SET state = 'owner' WHERE slot = ?", (slot,))
    writer.join(10)
    router.run(FR, write)
    values = scraped(ShardMetrics(router))
    assert (1.0, True) == (values["fence_seconds_count"], 0 < values["fence_seconds_sum"])


def test_a_wait_begins_with_the_first_refusal_and_a_block_without_one_is_no_wait(monkeypatch):
    counted, times = RouterStatistics(), iter((10.0, 10.3))
    monkeypatch.setattr(counts, "monotonic", lambda: next(times))
    with FenceWait(counted):
        pass
    with FenceWait(counted) as wait:
        wait.begins()
        wait.begins()
    assert (1, 0.3) == (sum(counted.fences.counts), pytest.approx(counted.fences.seconds))


def test_rows_are_those_of_the_owned_slots_by_shard(files, router):
    _, here, there = ends(router)
    for _ in range(3):
        router.run(FR, write)
    values = scraped(ShardMetrics(router))
    assert (3.0, 0.0) == tuple(values[f'partition_row_count{{shard="{shard}"}}'] for shard in (here, there))
    assert 1.0 == values["skew_ratio"]
    assert not [name for name in scraped(ShardMetrics(router, rows_every=None)) if "row_count" in name]
    act("apply", files, act("plan", files, weights={here: 0.0}))
    moved = scraped(ShardMetrics(router))  # the old copies are left, and belong to no owned slot
    assert (0.0, 3.0) == tuple(moved[f'partition_row_count{{shard="{shard}"}}'] for shard in (here, there))


def test_rows_are_counted_again_after_the_interval_alone(router):
    collector, found = ShardMetrics(router, rows_every=timedelta(minutes=2)), []
    now = iter((0.0, 0.0, 60.0, 60.0, 120.0, 120.0, 120.0))
    collector._clock = type("Clock", (), {"elapsed": lambda _: next(now)})()
    _, here, _ = ends(router)
    for _ in range(3):
        found.append(scraped(collector)[f'partition_row_count{{shard="{here}"}}'])
        router.run(FR, write)
    assert [0.0, 0.0, 2.0] == found


def test_a_move_without_progress_is_told_by_its_seconds(files, router):
    collector, now = ShardMetrics(router, rows_every=None), [0.0]
    collector._clock = type("Clock", (), {"elapsed": lambda _: now[0]})()
    names = ("moves", "moves_due", "move_idle_seconds")
    assert [0.0, 0.0, 0.0] == [scraped(collector)[name] for name in names]
    begin(files, "chunk")
    scraped(collector)
    now[0] = 400.0
    assert [1.0, 1.0, 400.0] == [scraped(collector)[name] for name in names]
    act("pause", files)
    assert [1.0, 0.0, 0.0] == [scraped(collector)[name] for name in names]
    act("apply", files)
    assert [1.0, 0.0, 0.0] == [scraped(collector)[name] for name in names]


def test_a_store_that_does_not_answer_leaves_the_counts_of_the_router(files, router, monkeypatch):
    async def silent(*_, **__):
        await asyncio.Event().wait()

    monkeypatch.setattr(metrics, "set_status", silent)
    monkeypatch.setattr(metrics, "_MOST_SECONDS", 0.05)
    router.session(FR).close()
    values = scraped(ShardMetrics(router, rows_every=None))
    assert (0.0, 1.0, 1.0) == (values["store_answers"], values["sessions_total"], values["routing_table_version"])
    assert "moves" not in values


def test_a_control_store_that_is_gone_is_told(files, router):
    collector = ShardMetrics(router)
    assert 1.0 == scraped(collector)["store_answers"]
    (files.folder / "control.db").unlink()
    values = scraped(collector)
    assert (0.0, True) == (values["store_answers"], "sessions_total" in values)


def test_every_metric_is_documented_and_no_other(router):
    ours = {re.sub("_(count|sum|bucket)$", "", name.partition("{")[0]) for name in scraped(ShardMetrics(router))}
    shared = {"routing_table_version", "partition_row"}
    named = {f"apportion_shards_{name}" for name in ours - shared if not name.endswith("_created")}
    kept = {"apportion_shards_wal_kept_bytes"}  # only while a move by replication is under way
    assert named | kept | {"routing_table_version", "partition_row_count"} == documented()


def test_every_alert_uses_documented_metrics():
    used = set(re.findall(r"apportion_shards_\w+|partition_\w+|routing_\w+", DOCS.read_text().partition("```yaml")[2]))
    assert {"apportion_shards_stale_routes_total", "apportion_shards_skew_ratio"} <= used
    assert set() == {re.sub("_(count|sum|bucket)$", "", name) for name in used} - documented()


def documented():
    return {line.split("`")[1] for line in DOCS.read_text().splitlines() if line.startswith("| `")}


def test_an_object_that_is_no_router_and_a_wrong_interval_are_refused(router):
    for given, options in (("world", {}), (router, {"rows_every": 60}), (router, {"rows_every": timedelta(0)})):
        with pytest.raises(InvalidInput):
            ShardMetrics(given, **options)
