"""Metrics of a set on servers: the role of an application counts rows, and only the role of the mover sees progress."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import apportion.sync
from apportion.metrics import ShardMetrics
from apportion.shards import admin
from tests.shards.sample import SET, Base
from tests.shards.server import OWNER, USER, as_role

pytestmark = pytest.mark.live


class Cut(Exception):
    """The end of a mover."""


def begin(files):
    """Begin to move the slots of shard one, and end the mover after the first chunk."""

    def cut(event):
        if event.step == "chunk":
            raise Cut

    plan = asyncio.run(admin.plan(files.url, SET, weights={"one": 0.0}))
    with pytest.raises(Cut):
        asyncio.run(admin.apply(files.url, SET, plan, observer=cut))


def test_a_role_that_owns_nothing_sees_rows_and_moves_and_no_progress(make_set, monkeypatch):
    files = make_set("postgresql")
    as_role(monkeypatch, OWNER)
    begin(files)
    told = {}
    for role in (OWNER, USER):
        as_role(monkeypatch, role)
        with apportion.sync.open_shards(files.url, SET, base=Base) as router:
            registry = CollectorRegistry()
            registry.register(ShardMetrics(router))
            told[role] = generate_latest(registry).decode()
    for text in told.values():
        assert f'apportion_shards_moves_due{{set="{SET}"}} 1.0' in text
        assert f'partition_row_count{{set="{SET}",shard="one"}} 0.0' in text
    assert f'apportion_shards_move_idle_seconds{{set="{SET}"}} 0.0' in told[OWNER]
    assert "move_idle_seconds{" not in told[USER]
