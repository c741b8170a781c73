"""Mistakes with stores and published tables: each error names the value, an expectation and the next step."""

import pytest

from apportion import sync
from tests.mistakes import check_refused, mistakes

MISTAKES = """
follow(url, "") | table name is '' | Give it a name; check for an extra
follow(url, None) | table name is None | Pass a string; call str(...) if
follow(url, "t", within_seconds=-1) | within_seconds is -1 | Write for example within_seconds=10.
follow(url, "t", within_seconds="10") | within_seconds is '10' | Write for example within_seconds=10.
follow(url, "t", within_seconds=timedelta(seconds=1)) | within_seconds is a timedelta | Write for example
follow(url, "t", within_seconds=float("nan")) | within_seconds is nan | Write for example within_seconds=10.
follow(url, "t", hasher="x") | hasher is 'x' | Pick one of them.
follow("t.json", "t") | store URL is 't.json' | Write for example sqlite:///work.db or
open_store("") | store URL is '' | Write for example sqlite:///work.db or
open_store("work.db") | store URL is 'work.db' | Write for example sqlite:///work.db or
open_store(None) | store URL is None | Write sqlite:///work.db, without a line
open_store(3) | store URL is 3 | Write sqlite:///work.db, without a line
open_store(url, needs="durable") | needs is 'durable' | Write needs=["durable"], also for a single
open_store(url, needs=["durabel"]) | need is 'durabel' | Did you mean 'durable'?
open_store(url, needs=[3]) | need is 3 | Pick one of them.
open_store(url, needs=None) | needs is None | Write needs=["durable"], also for a single
open_store("redis://h:x/0") | port of the store URL is '(not shown)' | A ':' or '@' in a password needs no
open_store("etcd://") | store URL is 'etcd://' | Write for example
open_store("postgres://h/d") | scheme of a store URL is 'postgres' | Did you mean 'postgresql'?
open_store("sqlite:///") | path of the store URL is 'sqlite:///' | Write three slashes for a relative path
open_store(url + "?timeout=3") | option of a sqlite:// URL is '(not shown)' | Pick one of them.
sync.publish(url, "t", ring) | value to publish is a Ring | Publish the table() of a placement, or the
sync.publish(url, "t", None) | value to publish is None | Publish the table() of a placement, or the
sync.publish(url, "", table) | table name is '' | Give it a name; check for an extra
sync.publish(url, None, table) | table name is None | Pass a string; call str(...) if
sync.publish("work.db", "t", table) | store URL is 'work.db' | Write for example sqlite:///work.db or
sync.publish(table, url, "t") | table name is | Write it with '.' or '-' instead, or
publish(url, "t", ring) | value to publish is a Ring | Publish the table() of a placement, or the
publish(url, "t", None) | value to publish is None | Publish the table() of a placement, or the
stores.connect("work.db") | store URL is 'work.db' | Write for example sqlite:///work.db or
stores.connect(None) | store URL is None | Write sqlite:///work.db, without a line
stores.connect(url, needs="durable") | needs is 'durable' | Write needs=["durable"], also for a single
stores.administration("work.db") | store URL is 'work.db' | Write for example sqlite:///work.db or
stores.administration(None) | store URL is None | Write sqlite:///work.db, without a line
store.commit(when=[], puts=[("k", b"v")]) | put is a tuple | Name keys to delete in deletes.
store.commit(when=[], puts=stores.Put(key="k", value=b"v")) | puts is a Put | Write puts=[...], also for a single one.
store.commit(when=None) | when is None | Write when=[...], also for a single one.
store.commit(when=[], puts=[]) | commit is '(no put, no delete)' | To read, use scan.
store.commit(when=[], deletes="k") | deletes is 'k' | Write deletes=[...], also for a single
store.commit(when=[], deletes=["a", "a"]) | written key is 'a' | Name the expected state:
store.commit(when=[], deletes=[3]) | key is 3 | Decode it first.
store.commit(when=["k"], deletes=[]) | compare is 'k' | There is no other compare.
store.commit(when=[], puts=[stores.Put(key="k", value=b"x" * 2_000_000)]) | length of a value is 2000000 | Cut it into
store.commit(when=[], puts=[stores.Put(key="k", value=b"x", lease=999)]) | written key is 'k' | Name the expected state
store.scan(None) | prefix is None | Decode it first.
store.scan(3) | prefix is 3 | Decode it first.
store.scan(b"k") | prefix is b'k' | Decode it first.
store.grant(ttl_seconds=0) | ttl_seconds is 0 | A lease must outlast a pause of its
store.grant(ttl_seconds="10") | ttl_seconds is '10' | A lease must outlast a pause of its
store.grant(ttl_seconds=timedelta(seconds=10)) | ttl_seconds is a timedelta | A lease must outlast a pause of its
store.grant(ttl_seconds=float("nan")) | ttl_seconds is nan | A lease must outlast a pause of its
store.grant(ttl_seconds=1e9) | ttl_seconds is 1000000000.0 | A lease must outlast a pause of its
store.renew(3) | leases is 3 | Write leases=[...], also for a single one.
store.renew(["x"]) | lease is 'x' | Pass Lease.id.
store.renew([None]) | lease is None | Pass Lease.id.
store.revoke("x") | lease is 'x' | Pass Lease.id.
store.revoke(None) | lease is None | Pass Lease.id.
next(store.watch("k", after="x")) | after is 'x' | Take it from a scan.
next(store.watch(None, after=0)) | prefix is None | Decode it first.
next(store.watch("k", after=-1)) | after is -1 | Take it from a scan.
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('mistakes')}/work.db"


@pytest.fixture(scope="module")
def store(url):
    with sync.open_store(url) as store:
        yield store


@pytest.mark.parametrize(("call", "problem", "hint"), mistakes(MISTAKES))
def test_a_mistake_names_the_value_an_expectation_and_the_next_step(call, problem, hint, url, store):
    check_refused(call, problem, hint, url=url, store=store)
