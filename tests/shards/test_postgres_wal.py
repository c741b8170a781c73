"""The log that a source keeps for a move by replication: it is shown, it has a limit, and a lost log ends the move."""

import asyncio
import json
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import apportion
from apportion.errors import InvalidInput
from apportion.metrics import ShardMetrics
from apportion.shards import admin
from tests.console.running import run
from tests.shards.sample import SET, Base
from tests.shards.server import OWNER, as_role
from tests.shards.test_postgres_native import LEFT, Pair, stopped

pytestmark = [pytest.mark.live, pytest.mark.slow]
MEGABYTE = 1_000_000
WAL = "SELECT pg_logical_emit_message(false, 'test', repeat('x', 1000000)) FROM generate_series(1, %s)"


@pytest.fixture
def pair(servers, tmp_path, monkeypatch):
    """A set on two servers, with some rows in two slots."""
    as_role(monkeypatch, OWNER)
    made = Pair(servers, tmp_path)
    made.fill(made.owned()[:2])
    yield made
    made.drop()


@contextmanager
def keeping(files, size):
    """Let the source's server keep so much WAL for a replication slot."""
    _set(files, f"SET max_slot_wal_keep_size = '{size}'", size)
    try:
        yield
    finally:
        _set(files, "RESET max_slot_wal_keep_size", "4GB")


def _set(files, act, size):
    files.sql("one", f"ALTER SYSTEM {act}")
    files.sql("one", "SELECT pg_reload_conf()")
    while files.sql("one", "SHOW max_slot_wal_keep_size") != [(size,)]:
        pass


def planned(files, slots=None):
    return asyncio.run(admin.plan(files.url, SET, slots=slots or files.owned()[:2], to="two"))


def applied(files, plan, observer=None, **options):
    return asyncio.run(admin.apply(files.url, SET, plan, channel="native", observer=observer, **options))


def moves(files):
    return asyncio.run(admin.status(files.url, SET, has_progress=True)).moves


def test_a_source_without_a_bound_is_refused_and_auto_logs_keys_unless_it_is_allowed(pair, monkeypatch):
    plan, logs = planned(pair), set()
    reason = "max_slot_wal_keep_size of shard one is -1: see --allow-unbounded-wal"

    def look(event):
        if event.step == "chunk":
            logs.update(pair.sql("one", LEFT["publications"]))

    with keeping(pair, "-1"):
        catalogs = pair.catalogs()
        [found] = asyncio.run(admin.channels(pair.url, SET, plan))
        assert ("keys", reason) == (found.kind, found.reason)
        with pytest.raises(InvalidInput, match=reason):
            applied(pair, plan)
        assert (catalogs, ()) == (pair.catalogs(), moves(pair))
        auto = admin.apply(pair.url, SET, planned(pair, pair.owned()[:1]), channel="auto", observer=look)
        assert asyncio.run(auto).is_whole
        assert not logs
        assert applied(pair, planned(pair, pair.owned()[:1]), look, allows_unbounded_wal=True).is_whole
        assert logs


def test_the_log_that_a_source_keeps_is_shown_also_while_the_target_is_away(pair, servers):
    stopped(pair, "chunk", pair.owned()[:2])
    asyncio.run(admin.pause(pair.url, SET))
    pair.sql("one", WAL, (3,))
    stream(pair, "DISABLE")
    [move] = moves(pair)
    pair.sql("one", WAL, (4,))
    [later] = moves(pair)
    assert later.wal_kept_bytes - move.wal_kept_bytes >= 3 * MEGABYTE
    servers[1].halt()
    try:
        [away] = moves(pair)
        assert away.problem
        assert away.wal_kept_bytes >= later.wal_kept_bytes
        told = json.loads(run("shards", "status", pair.url, SET, "--json", folder=pair.folder).stdout)
        assert told["moves"][0]["wal_kept_bytes"] >= later.wal_kept_bytes
        plain = run("shards", "status", pair.url, SET, folder=pair.folder).stdout.decode()
        assert f"- {move.id}: shard one keeps " in plain
        with apportion.sync.open_shards(pair.url, SET, base=Base) as router:
            registry = CollectorRegistry()
            registry.register(ShardMetrics(router, rows_every=None))
            lines = generate_latest(registry).decode().splitlines()
        [line] = [each for each in lines if each.startswith("apportion_shards_wal_kept_bytes{")]
        assert line.startswith(f'apportion_shards_wal_kept_bytes{{set="{SET}",shard="one"}} ')
        assert float(line.split()[-1]) >= later.wal_kept_bytes
    finally:
        servers[1].launch()
    assert asyncio.run(admin.abort(pair.url, SET)).is_whole


def stream(files, act):
    """Let the workers of the only subscription rest, or go on."""
    [(name,)] = files.sql("two", "SELECT quote_ident(subname) FROM pg_subscription")
    files.sql("two", f"ALTER SUBSCRIPTION {name} {act}")


def test_a_move_whose_target_falls_behind_is_aborted_at_the_limit_and_leaves_nothing(pair):
    before, catalogs, said = pair.rows("one"), pair.catalogs(), []
    with pair.connect("two", user=OWNER) as locker:

        def hear(event):
            said.append(event.step)
            if event.step == "verify" and said.count("verify") == 1:
                locker.execute("LOCK TABLE place")
                pair.sql("one", "UPDATE place SET visits = visits")
                pair.sql("one", WAL, (6,))
            elif event.step == "ends":
                locker.rollback()

        made = applied(pair, planned(pair), hear, most_wal_bytes=5 * MEGABYTE)
    assert ((), False) == (made.moves, made.is_whole)
    assert "was aborted: shard one kept " in made.why
    assert "of WAL for it, more than 5.0 MB. Look why shard two is slow or away." in made.why
    assert (catalogs, before, ()) == (pair.catalogs(), pair.rows("one"), moves(pair))
    assert [[], []] == pair.rows("two")


def test_a_source_deletes_its_log_while_the_target_is_away(pair, servers):
    before, catalogs, slots = pair.rows("one"), pair.catalogs(), []
    plan = planned(pair)

    def hear(event):
        if event.step == "verify" and not slots:
            slots.extend(pair.sql("one", LEFT["slots"]))
            servers[1].halt()
            pair.sql("one", WAL, (6,))
        elif event.step == "waits" and event.state == "aborted" and not pair.sql("one", LEFT["slots"]):
            servers[1].launch()

    made = applied(pair, plan, hear, most_wal_bytes=5 * MEGABYTE)
    assert slots
    assert "more than 5.0 MB" in made.why
    assert (catalogs, before, ()) == (pair.catalogs(), pair.rows("one"), moves(pair))


@pytest.mark.parametrize("step", ["chunk", "verify"])
def test_a_slot_that_the_server_has_invalidated_ends_the_move_with_a_reason(pair, step):
    before, catalogs, lost = pair.rows("one"), pair.catalogs(), []
    state = "SELECT DISTINCT wal_status FROM pg_replication_slots"

    def hear(event):
        if event.step == step and not lost:
            stream(pair, "DISABLE")
            while pair.sql("one", "SELECT 1 FROM pg_replication_slots WHERE active_pid IS NOT NULL"):
                pass
            pair.sql("one", WAL, (6,))
            pair.sql("one", "SELECT pg_switch_wal()")
            pair.sql("one", "CHECKPOINT")
            lost.extend(pair.sql("one", state))

    with keeping(pair, "1MB"):
        made = applied(pair, planned(pair), hear)
    assert ("lost",) in lost
    assert "the server of shard one has deleted WAL that shard two still needed" in made.why
    assert "Raise max_slot_wal_keep_size of shard one" in made.why
    assert (catalogs, before, ()) == (pair.catalogs(), pair.rows("one"), moves(pair))
    assert applied(pair, planned(pair)).is_whole
    assert before == pair.rows("two")


def test_a_command_tells_the_reason_and_ends_with_1(pair, tmp_path):
    slots = [word for slot in pair.owned()[:2] for word in ("--move", str(slot))]
    assert 2 == run("shards", "plan", pair.url, SET, *slots, "--to", "two", "-o", "p", folder=tmp_path).returncode
    done = run("shards", "apply", pair.url, SET, "p", "--channel", "native", "--max-wal", "1B", folder=tmp_path)
    assert 1 == done.returncode, done.stderr
    assert "kept " in done.stdout.decode()
    assert "0 moves; a limit has stopped a move" in done.stdout.decode()
    assert ((), []) == (moves(pair), pair.sql("one", LEFT["slots"]))
