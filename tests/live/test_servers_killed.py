"""A server of a move, or its mover, is killed at each stop point: no acknowledged write is lost, and others go on.

Each point has a victim: the source, the target, or the mover. The victim comes back at once, or stays away until each
shard that lives has acknowledged writes. `APPORTION_GROUP_RUNS=500` asks for all points, and `make test` takes some.
A mover that stays away leaves nobody behind its fence: the writers end it, with the rights of its role.
"""

import os
from contextlib import ExitStack, closing, contextmanager

import pytest

import apportion.sync
from tests.live.move_courses import rounds
from tests.live.move_orders import MoverOrders, ServerOrders
from tests.live.server_kills import ServerKills
from tests.live.shard_verdict import read_shard, verdict
from tests.live.slot_writers import MOVING, Acknowledged
from tests.live.test_shards_killed import Movers
from tests.live.writer_processes import writing
from tests.shards.postgres_rig import LOGICAL
from tests.shards.sample import SET, Base
from tests.shards.server import OWNER, as_role
from tests.shards.test_postgres_native import Pair
from tests.stores.rigs.postgres import USER, PostgresRig

IS_LONG = os.environ.get("APPORTION_GROUP_RUNS") == "500"
pytestmark = [pytest.mark.live, pytest.mark.crowded, pytest.mark.timeout(3600 if IS_LONG else 1800)]
WRITERS, MOVED_SLOTS, LEAST_ACKNOWLEDGED = 8, 8, 300


@contextmanager
def apart(folder, monkeypatch, clusters=2):
    """Yield two shards, on a server each or on one, and the environments of the roles that write and that move."""
    with ExitStack() as stack:
        rigs = []
        for _ in range(clusters):
            rigs.append(PostgresRig(settings=("fsync = off", *LOGICAL)))
            stack.callback(rigs[-1].stop)
        as_role(monkeypatch, OWNER)
        files = Pair([rigs[0], rigs[-1]], folder)
        yield files, os.environ | {"SERVER_ROLE": USER}, dict(os.environ)


@contextmanager
def killed(files, env, module="tests.live.slot_writers"):
    """Let writers write within the block, and yield the kills of servers.

    At its end no living shard has stood, and the catalogs are as before.
    """
    catalogs = files.catalogs()
    slots = files.sql("one", "SELECT slot FROM apportion_slot ORDER BY slot")[:MOVED_SLOTS]
    slots = [slot for (slot,) in slots]
    (files.folder / MOVING).write_text(",".join(map(str, slots)))
    with (
        apportion.sync.open_shards(files.url, SET, base=Base) as router,
        writing(module, files, WRITERS, env),
    ):
        kills = ServerKills(files, router, Acknowledged(files.folder), slots)
        try:
            yield kills
        finally:
            kills.join()
    assert ([], catalogs) == (kills.stuck, files.catalogs())


def judged(files, record_property, points):
    """Judge the ledgers and the rows."""
    result = verdict(files.folder, [read_shard(files, shard) for shard in ("one", "two")])
    record_property("acknowledged", result.acknowledged)
    record_property("figures", points)
    assert {"lost": 0, "stale": 0, "resurrected": 0, "owned_twice": 0} == result.harm
    assert result.acknowledged >= LEAST_ACKNOWLEDGED


@pytest.mark.parametrize("channel", ["keys", pytest.param("native", marks=[] if IS_LONG else pytest.mark.soak)])
@pytest.mark.parametrize("victim", ["source", "target", "mover"] if IS_LONG else ["some"])
def test_no_write_is_lost_when_somebody_is_killed_and_the_living_shards_go_on(
    tmp_path, record_property, monkeypatch, victim, channel
):
    is_mover = victim == "mover"
    with apart(tmp_path, monkeypatch, clusters=1 if is_mover else 2) as (files, user, owner):
        with (
            killed(files, owner if is_mover else user) as kills,
            closing(orders_to(victim, files, channel, kills, owner)) as orders,
        ):
            for course, due in rounds(victim):
                orders.play(course, due)
        judged(files, record_property, f"kill points ({victim}, {channel}): {len(orders.around)}")
    record_property("around", f"{orders.around}")
    check(orders, 150 if IS_LONG else 12)


def check(orders, least):
    """Check that nothing is left. On an idle machine all points are reached, and each kill counts."""
    assert [] == orders.left
    if short := orders.missed + orders.idle:
        reason = f"nothing was lost, but {len(short)} kills were late, or beside writers that stood"
        assert os.getloadavg()[0] > os.cpu_count(), f"{reason}: {short}"
        pytest.skip(f"{reason}: the machine is busy")
    assert len(orders.around) >= least


def orders_to(victim, files, channel, kills, env, *least):
    """Return the orders to movers that are killed, or whose servers are. `least` is the one of `Orders`."""
    if victim != "mover":
        return ServerOrders(files, channel, kills, *least)
    slots = (files.folder / MOVING).read_text().split(",")
    return MoverOrders(files, channel, kills, Movers(files, slots, env, channel, is_elected=True), *least)
