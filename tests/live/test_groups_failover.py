"""A group while members and its store die: the successors, the time they take, and the parts that stay."""

import asyncio
import signal
from itertools import count

import pytest

from tests.live.crew import CLOCK, Crew, percentiles
from tests.stores.rigs import absent
from tests.stores.rigs.etcd import EtcdRig
from tests.stores.rigs.postgres import PostgresRig
from tests.stores.rigs.sqlite import SqliteRig

pytestmark = pytest.mark.live
TTL_SECONDS = 2.0
SLACK_SECONDS = 3.0  # of a machine that is busy; the figures are printed
NAMES = count()
ENGINES = {"sqlite": SqliteRig, "postgres": PostgresRig, "etcd": EtcdRig}
SERVERS = ["postgres", "etcd"]


@pytest.fixture(scope="module")
def rig(request):
    try:
        made = ENGINES[request.param]()
    except FileNotFoundError as error:
        absent(str(error))
    yield made
    asyncio.run(made.close())


@pytest.fixture
def open_crew(rig, tmp_path):
    """Return the function that opens a crew on a group of its own; its log is a file, on every store."""
    made = []

    def open_one(partitions, **options):
        options = {"lease_ttl": TTL_SECONDS} | options
        url, log = rig.url(f"group{next(NAMES)}"), tmp_path / f"{len(made)}.db"
        made.append(Crew(url, str(log), tmp_path / "errors", partitions=partitions, **options))
        return made[-1]

    yield open_one
    for crew in made:
        crew.end()


@pytest.mark.parametrize("rig", ENGINES, indirect=True)
def test_what_killed_members_had_is_served_elsewhere(open_crew, rig, record_property):
    crew, kills = open_crew(40), []
    crew.start(*(f"m{number}" for number in range(10)))
    for round_ in range(4):
        crew.until_settled()
        victims = [f"m{2 * round_}", f"m{2 * round_ + 1}"]
        orphans = {name: crew.owned_by(name) for name in victims}
        start, at = len(crew.lines), crew.kill(*victims)
        crew.until("owners of what they had", all_served, crew, orphans, start, at)
        kills += [max(served(crew, start, at)[partition] for partition in orphans[name]) - at for name in victims]
    record_property("figures", f"fail-over on {rig.name}, TTL {TTL_SECONDS:g} s: {percentiles(kills)}")
    assert max(kills) < TTL_SECONDS + SLACK_SECONDS


def all_served(crew, orphans, start, at):
    """Whether all is served that was orphaned by a kill."""
    return set().union(*orphans.values()) <= served(crew, start, at).keys()


def served(crew, start, at):
    """Return since when each partition is served that was gained after a kill."""
    first = {}
    for partition, _, since in crew.gained(start=start):
        if since > at:
            first.setdefault(partition, since)
    return first


@pytest.mark.parametrize("rig", SERVERS, indirect=True)
def test_a_store_that_dies_during_a_move_of_200_partitions_ends_no_session(open_crew, rig):
    crew = open_crew(400, lease_ttl=20.0)  # however long it takes until the store is back
    crew.start("ann")
    crew.until_settled()
    crew.start("bob")
    crew.until("the move", lambda: crew.owned_by("bob"))
    members = {name: crew.view.session(name) for name in ("ann", "bob")}
    asyncio.run(rig.kill())
    asyncio.run(rig.start())
    crew.until_settled()
    assert members == {name: crew.view.session(name) for name in members}
    assert [200, 200] == [len(crew.owned_by(name)) for name in members]
    crew.until("all that was gained", lambda: len(crew.gained()) >= 600)
    crew.until("all that was lost", lambda: len(crew.lost()) >= 200)  # which may be told later than its gain
    assert (600, 200) == (len(crew.gained()), len(crew.lost()))


@pytest.mark.parametrize("rig", SERVERS, indirect=True)
def test_while_the_store_is_away_nobody_writes_past_the_deadline_and_then_nothing_moves(open_crew, rig):
    ttl = 2 * TTL_SECONDS  # within which all must be back once the store is
    crew = open_crew(8, lease_ttl=ttl, work={"beat_seconds": 0.05})
    crew.start("ann", "bob", "cid", "dan")
    crew.until_settled()
    crew.until("effects", lambda: {line["partition"] for line in crew.effects()} == set(range(8)))
    owners, start = crew.owners(), len(crew.lines)
    asyncio.run(rig.kill())
    away = CLOCK.elapsed()  # from now on nothing is renewed
    crew.listen(2.5 * ttl)  # the time for which it is away is the parameter
    asyncio.run(rig.start())
    meanwhile = [line["at"] for line in crew.effects(start=start)]
    back = len(crew.lines)
    crew.until("effects", lambda: {line["partition"] for line in crew.effects(start=back)} == set(range(8)))
    crew.until_settled()
    assert max(meanwhile) < away + ttl
    assert owners == crew.owners()


@pytest.mark.parametrize("rig", ["etcd"], indirect=True)
def test_who_slept_through_a_compaction_reads_all_again(open_crew, rig):
    crew = open_crew(12, lease_ttl=30.0)
    crew.start("ann", "bob")
    crew.until_settled()
    crew.pause("bob")
    crew.launch("cid")
    assert "ready" == crew.hear("cid")
    crew.leave("cid")
    asyncio.run(rig.compact())
    crew.send(signal.SIGCONT, "bob")
    crew.start("dan")
    crew.until_settled()
