"""Mistakes with groups and elections: each error names the value, an expectation and the next step."""

from datetime import timedelta

import pytest

from apportion import sync
from tests.mistakes import check_refused, mistakes

MISTAKES = """
open_group(url, "g", partitions=0) | partitions is 0 | Take several times the members that you
open_group(url, "g", partitions="12") | partitions is '12' | Take several times the members that you
open_group(url, "g", partitions=1.5) | partitions is 1.5 | Take several times the members that you
open_group(url, "g", partitions=["p"]) | partitions is a list | Take several times the members that you
open_group(url, "g", partitions=None) | partitions is None | Take several times the members that you
open_group(url, "", partitions=2) | name of the group is '' | Give it a name; check for an extra
open_group(url, None, partitions=2) | name of the group is None | Pass a string; call str(...) if
open_group(url, 3, partitions=2) | name of the group is 3 | Pass a string; call str(...) if
open_group(url, "a/b", partitions=2) | name of the group is 'a/b' | Write another sign in its place, for
open_group("g", url, partitions=2) | store URL is 'g' | Write for example sqlite:///work.db or
open_group(None, "g", partitions=2) | store URL is None | Write sqlite:///work.db, without a line
open_group("work.db", "g", partitions=2) | store URL is 'work.db' | Write for example sqlite:///work.db or
open_group("mysql://h/d", "g", partitions=2) | scheme of a store URL is 'mysql' | Pick one of them.
open_group("sqlite://x.db", "g", partitions=2) | path of the store URL is 'sqlite://x.db/' | Write three slashes for a
open_group("http://h", "g", partitions=2) | scheme of a store URL is 'http' | Pick one of them.
open_group(url, "g", partitions=2, member_id="") | member_id is '' | Give it a name; check for an extra
open_group(url, "g", partitions=2, member_id=3) | member_id is 3 | Pass a string; call str(...) if
open_group(url, "g", partitions=2, static=True) | member_id is None | Pass member_id=, or set
open_group(url, "g", partitions=2, static="yes") | static is 'yes' | Write static=True, or leave it out.
open_group(url, "g", partitions=2, lease_ttl=10) | lease_ttl is 10 | Write lease_ttl=timedelta(seconds=10).
open_group(url, "g", partitions=2, lease_ttl="10s") | lease_ttl is '10s' | Write lease_ttl=timedelta(seconds=10).
open_group(url, "g", partitions=2, lease_ttl=None) | lease_ttl is None | Write lease_ttl=timedelta(seconds=10).
open_group(url, "g", partitions=2, lease_ttl=timedelta(0)) | lease_ttl is '0:00:00' | Write
open_group(url, "g", partitions=2, lease_ttl=timedelta(seconds=-1)) | lease_ttl is '-1 day, 23:59:59' | Write
open_group(url, "g", partitions=2, lease_ttl=timedelta(days=400)) | lease_ttl is '400 days, 0:00:00' | Write
open_group(url, "g", partitions=2, drain_timeout=5) | drain_timeout is 5 | Write drain_timeout=timedelta(seconds=10).
open_group(url, "g", partitions=2, rejoin_grace=5) | rejoin_grace is '5' | Give it a member_id that it keeps over
open_group(url, "g", partitions=2, progress_deadline=5) | progress_deadline is 5 | Write
open_group(url, "g", partitions=2, settle=5) | settle is 5 | Write settle=timedelta(seconds=10).
open_group(url, "g", partitions=2, balancer="x") | balancer is 'x' | Pick one of them.
open_group(url, "g", partitions=2, balancer=balance.optimal) | balancer is a function | Pick one of them.
open_group(url, "g", partitions=2, mode="careful") | mode is 'careful' | Pick one of them.
open_group(url, "g", partitions=2, mode=None) | mode is None | Pick one of them.
open_group(url, "g", partitions=2, weight=-1) | weight of node | Weights are relative: give the
open_group(url, "g", partitions=2, weight="2") | weight of node | Weights are relative: give the
open_group(url, "g", partitions=2, weight=float("nan")) | weight of node | Weights are relative:
open_group(url, "g", partitions=2, zone="eu") | zone is 'eu' | Write zone=("eu", "rack1"), or zone=() for
open_group(url, "g", partitions=2, zone=["eu", 3]) | zone level is 3 | Pass a string; call str(...) if
open_group(url, "g", partitions=2, labels=["a"]) | labels is a list | Write labels={"tier": "batch"}.
open_group(url, "g", partitions=2, labels={"a": 1}) | labels is 1 | Write labels={"tier": "batch"}.
open_group(url, "g", partitions=2, labels={1: "a"}) | labels is 1 | Write labels={"tier": "batch"}.
open_group(url, "g", partitions=2, replace="yes") | replace is 'yes' | Write replace=True, or leave it out.
open_group(url, "g", partitions=2, throttle=0) | throttle is 0 | Write throttle=10, or leave
open_group(url, "g", partitions=2, throttle=Throttle(per_node=2)) | throttle is a Throttle | Write throttle=10, or leave
open_group(url, "g", partitions=2, throttle="2") | throttle is '2' | Write throttle=10, or leave
open_group(url, "g", partitions=2, quarantine_after=0) | quarantine_after is 0 | Leave it out, and a partition waits
open_group(url, "g", partitions=2, quarantine_after="3") | quarantine_after is '3' | Leave it out, and a partition
open_group(url, "g", partitions=2, observer="x") | observer is 'x' | Write open_group(…, observer=log) with:
leader(url, "") | name of the group is '' | Give it a name; check for an extra
leader(url, None) | name of the group is None | Pass a string; call str(...) if
leader(url, "l", lease_ttl=10) | lease_ttl is 10 | Write lease_ttl=timedelta(seconds=10).
leader(url, "l", member_id=3) | member_id is 3 | Pass a string; call str(...) if
leader("work.db", "l") | store URL is 'work.db' | Write for example sqlite:///work.db or
leader(url, "l", quarantine_after=0) | quarantine_after is 0 | Leave it out, and a partition waits longer
group.hold(9).__enter__() | partition is 9 | Take one of group.owned.
group.hold("x").__enter__() | partition is 'x' | Take one of group.owned.
group.hold(None).__enter__() | partition is None | Take one of group.owned.
group.hold(-1).__enter__() | partition is -1 | Take one of group.owned.
group.hold(1.5).__enter__() | partition is 1.5 | Take one of group.owned.
group.token(9) | partition is 9 | Take one of group.owned.
group.token(None) | partition is None | Take one of group.owned.
group.token("x") | partition is 'x' | Take one of group.owned.
group.serve(on_gained=3) | on_gained is 3 | Write `def`, or open the group with
group.serve(on_gained=lambda: None) | parameters of on_gained is '()' | Write: def on_gained(partition, token)
group.serve(on_gained=lambda p: None) | parameters of on_gained is '(p)' | Write: def on_gained(partition, token)
group.serve(on_gained=lambda a, b, c: None) | parameters of on_gained is '(a, b, c)' | Write: def on_gained(partition,
group.serve(on_lost="x") | on_lost is 'x' | Write `def`, or open the group with
group.serve(on_gained=handler) | on_gained is a function | Write `def`, or open the group with
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('mistakes')}/work.db"


@pytest.fixture(scope="module")
def group(url):
    with sync.open_group(url, "g", partitions=2, settle=timedelta(0)) as group:
        group.wait_until_settled()
        yield group


async def handler(partition, token):
    raise AssertionError("called")


@pytest.mark.parametrize(("call", "problem", "hint"), mistakes(MISTAKES))
def test_a_mistake_names_the_value_an_expectation_and_the_next_step(call, problem, hint, url, group):
    check_refused(call, problem, hint, url=url, group=group, handler=handler)
