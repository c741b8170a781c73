"""A call that is cancelled at any turn of any loop leaves no member, lease, task, descriptor or connection.

On SQLite the same calls are cancelled by `tests/groups/test_cancellation.py`. The call `serving` opens and leaves too.
"""

import asyncio
import logging
import sqlite3
from contextlib import closing
from itertools import count

import pytest

from tests.groups.cancelled import CALLS, Cancelled
from tests.stores.rigs import absent
from tests.stores.rigs.etcd import EtcdRig
from tests.stores.rigs.postgres import PostgresRig

NAMES = count()
ENGINES = ["sqlite", "postgres", "etcd"]
IN_THE_THREAD = ("changing", "holding", "serving")


class Sqlite:
    def __init__(self, folder):
        self.path = folder / "store.db"

    def url(self, namespace):
        return f"sqlite:///{self.path}?namespace={namespace}"

    def leases(self):
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT count(*) FROM lease").fetchone()[0]

    def connections(self):
        return 0  # they are descriptors

    async def close(self):
        pass


class Postgres(PostgresRig):
    def leases(self):
        return self.sql("SELECT count(*) FROM apportion.lease")[0][0]

    def connections(self):
        return self.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'apportion'")[0][0]


class Etcd(EtcdRig):
    def leases(self):
        return len(self.ask("/v3/lease/leases", {}).get("leases", []))

    def connections(self):
        return 0  # they are descriptors


@pytest.fixture(scope="module")
def rig(request, tmp_path_factory):
    try:
        made = {"sqlite": lambda: Sqlite(tmp_path_factory.mktemp("s")), "postgres": Postgres, "etcd": Etcd}[
            request.param
        ]()
    except FileNotFoundError as error:
        absent(str(error))
    yield made
    asyncio.run(made.close())


def left_behind(rig, call, caplog, record_property, *, step, is_here):
    caplog.set_level(logging.ERROR, "apportion.group")
    cancelled = Cancelled(rig.url(f"g{next(NAMES)}"), leases=rig.leases, connections=rig.connections)
    turns, found = asyncio.run(cancelled.left(call, step=step, is_here=is_here))
    record_property("figures", f"{call}, cancelled at {turns} turns: {len(found)} with something left behind")
    return found


@pytest.mark.live
@pytest.mark.parametrize("rig", ENGINES[1:], indirect=True)
@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_left_of_a_call_that_is_cancelled_at_any_turn_of_its_own_loop(rig, call, caplog, record_property):
    assert {} == left_behind(rig, call, caplog, record_property, step=1, is_here=True)


@pytest.mark.live
@pytest.mark.parametrize("rig", ENGINES[1:], indirect=True)
@pytest.mark.parametrize("call", IN_THE_THREAD)
def test_nothing_is_left_of_a_call_that_is_cancelled_at_many_a_turn_of_the_io_thread(
    rig, call, caplog, record_property
):
    assert {} == left_behind(rig, call, caplog, record_property, step=12, is_here=False)


@pytest.mark.soak
@pytest.mark.parametrize("rig", ENGINES, indirect=True)
@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_left_of_a_call_that_is_cancelled_at_every_turn(rig, call, caplog, record_property):
    assert {} == left_behind(rig, call, caplog, record_property, step=1, is_here=False)
