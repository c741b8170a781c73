"""A shard may have another URL for the servers that replicate its rows: kept without a password, tried, and used."""

import asyncio
import json
from urllib.parse import quote

import pytest

from apportion.console.shards.options import replication_urls_of
from apportion.errors import BadSnapshot, InvalidInput, StoreUnavailable, UnknownOption
from apportion.shards import admin
from apportion.shards.postgres.replication import stream
from apportion.shards.postgres.server import ServerPlace
from apportion.shards.records import ShardRecord, records_of
from tests.console.running import run
from tests.shards.sample import SET, Base, Files
from tests.shards.server import OWNER, as_role
from tests.shards.test_postgres_native import Pair
from tests.stores.rigs.pgbouncer import Pooler
from tests.stores.rigs.postgres import SECRET

DIRECT = "postgresql://u:${PASSWORD}@10.0.0.7/one"


def test_a_record_keeps_both_urls():
    record = ShardRecord(url="postgresql://h/one", replication_url=DIRECT)
    assert record == ShardRecord.decode(record.encode())
    assert b"replication_url" not in ShardRecord(url="postgresql://h/one").encode()
    damaged = record.encode().replace(b'"' + DIRECT.encode() + b'"', b"7")
    with pytest.raises(BadSnapshot, match="field replication_url"):
        ShardRecord.decode(damaged)


@pytest.mark.parametrize(
    ("url", "other", "words"),
    [
        ("postgresql://h/one", "postgresql://u:cAnAry@h/one", "one without a password"),
        ("postgresql://h/one", "postgresql://h/one?password=cAnAry", "one without a password"),
        ("postgresql://h/one", "sqlite:///cAnAry.db", "the URL of a database of PostgreSQL"),
        ("postgresql://h/one", "cAnAry", "the URL of a database of PostgreSQL"),
        ("sqlite:///one.db", "postgresql://h/cAnAry", "the URL of a database of PostgreSQL"),
    ],
)
def test_a_url_with_a_password_or_of_no_server_is_refused_and_not_shown(url, other, words):
    with pytest.raises(InvalidInput, match=words) as refused:
        records_of({"one": url}, {"one": other})
    assert "cAnAry" not in str(refused.value)


def test_an_unknown_shard_is_refused():
    with pytest.raises(UnknownOption, match="two"):
        records_of({"one": "postgresql://h/one"}, {"two": DIRECT})


def test_a_place_fills_it_in_only_when_it_is_needed(monkeypatch):
    place = ServerPlace(set_name=SET, shard="one", address="postgresql://h/one", replication_url=DIRECT)
    with pytest.raises(InvalidInput, match="PASSWORD"):
        _ = place.replication_address
    monkeypatch.setenv("PASSWORD", "cAnAry")
    assert "postgresql://u:cAnAry@10.0.0.7/one" == place.replication_address
    assert (
        "postgresql://h/one" == ServerPlace(set_name=SET, shard="one", address="postgresql://h/one").replication_address
    )
    assert "10.0.0.7" not in repr(place)


def test_the_option_takes_an_id_and_a_url_and_for_one_shard_the_url_alone():
    two = {"one": "a", "two": "b"}
    assert {"two": DIRECT} == replication_urls_of([f"two={DIRECT}"], two)
    assert {"one": f"{DIRECT}?sslmode=require"} == replication_urls_of([f"{DIRECT}?sslmode=require"], {"one": "a"})
    assert {} == replication_urls_of(None, two)
    for wrong in ([DIRECT], ["one="], [f"one={DIRECT}"] * 2, [f"three={DIRECT}"], ["=postgresql://h/a"], [""]):
        with pytest.raises(InvalidInput, match="--replication-url"):
            replication_urls_of(wrong, two)


def test_files_have_none(tmp_path):
    files = Files(tmp_path)
    urls = {"one": f"sqlite:///{tmp_path}/one.db"}
    with pytest.raises(InvalidInput, match="Files of SQLite have no replication"):
        asyncio.run(admin.add(files.url, SET, urls, base=Base, replication_urls={"one": DIRECT}))


@pytest.fixture
def pooled(servers, tmp_path, monkeypatch):
    """A set on two servers. Programs reach shard one by a pooler, which lets no replication through."""
    as_role(monkeypatch, OWNER)
    made = Pooled(servers, tmp_path)
    made.fill(made.owned()[:2])
    yield made
    made.pooler.stop()
    made.drop()


class Pooled(Pair):
    """A pair whose shard one is reached by a pooler."""

    pooler = None

    def direct(self, shard):
        return super().place(shard)

    def place(self, shard):
        url = self.direct(shard)
        if shard != "one":
            return url
        rig = self.rigs[shard]
        self.pooler = self.pooler or Pooler(rig, connections=8, database=self.name(shard))
        return url.replace(f":{rig.port}/", f":{self.pooler.port}/")


def reached(files, url):
    asyncio.run(admin.add(files.url, SET, {"one": files.place("one")}, base=Base, replication_urls={"one": url}))


def shown(files):
    """Return all that this process and the target's server have told so far."""
    status = run("shards", "status", files.url, SET, "--json", folder=files.folder)
    doctor = run("shards", "doctor", files.url, SET, "--json", folder=files.folder)
    logs = b"".join((rig.folder / "server.log").read_bytes() for rig in files.rigs.values())
    return b"".join([status.stdout, status.stderr, doctor.stdout, doctor.stderr, logs]).decode()


def secrets():
    return [SECRET, quote(SECRET, safe=""), SECRET.replace("'", "\\'"), "cAnAry"]


@pytest.mark.live
@pytest.mark.slow
def test_a_source_behind_a_pooler_replicates_by_its_other_url_and_no_secret_is_shown(pooled):
    before, slots, conninfo = pooled.rows("one"), pooled.owned()[:2], []
    for rig in pooled.rigs.values():
        rig.sql("ALTER SYSTEM SET log_statement = 'ddl'")
        rig.sql("SELECT pg_reload_conf()")
    plan = asyncio.run(admin.plan(pooled.url, SET, slots=slots, to="two"))
    [found] = asyncio.run(admin.channels(pooled.url, SET, plan))
    assert "keys" == found.kind
    assert found.reason.startswith("the server of shard two does not reach shard one: ")
    with pytest.raises(InvalidInput, match="does not reach shard one") as refused:
        asyncio.run(admin.apply(pooled.url, SET, plan, channel="native"))
    reached(pooled, pooled.direct("one"))
    [one, _] = json.loads(run("shards", "status", pooled.url, SET, "--json", folder=pooled.folder).stdout)["shards"]
    assert (pooled.place("one"), pooled.direct("one")) == (one["url"], one["replication_url"])
    [found] = asyncio.run(admin.channels(pooled.url, SET, plan))
    assert "native" == found.kind, found.reason

    def look(event):
        if event.step == "chunk":
            conninfo.extend(pooled.sql("two", "SELECT subconninfo FROM pg_subscription"))

    assert asyncio.run(admin.apply(pooled.url, SET, plan, channel="native", observer=look)).is_whole
    assert before == pooled.rows("two")
    assert f"port={pooled.rigs['one'].port}" in conninfo[0][0]
    told = f"{shown(pooled)} {refused.value} {refused.value.hint}"
    assert [] == [each for each in secrets() if each in told]


@pytest.mark.live
@pytest.mark.slow
def test_a_url_of_another_database_is_told_while_the_move_waits_and_an_abort_ends_it(pooled, monkeypatch):
    monkeypatch.setattr(stream, "UNREAD_SECONDS", 0.5)
    before, catalogs = pooled.rows("one"), pooled.catalogs()
    reached(pooled, pooled.direct("one").replace(pooled.name("one"), "postgres"))
    said = []

    def hear(event):
        if event.step == "waits":
            said.append(event.why)
            raise StoreUnavailable("enough", "heard")

    plan = asyncio.run(admin.plan(pooled.url, SET, slots=pooled.owned()[:2], to="two"))
    with pytest.raises(StoreUnavailable, match="enough"):
        asyncio.run(admin.apply(pooled.url, SET, plan, channel="native", observer=hear))
    assert "shard two is unavailable: its server has not read the log of shard one for 0.5 s" in said[0]
    assert "the replication URL of shard one" in said[0]
    assert asyncio.run(admin.abort(pooled.url, SET)).is_whole
    assert (before, catalogs) == (pooled.rows("one"), pooled.catalogs())
