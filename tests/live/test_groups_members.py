"""Members of a group, each a process: those that leave, come twice, sleep, block or are poisoned, and what stays put.

On SQLite, and on every store where what is seen of a death, a block or a clock may depend on it.
"""

import asyncio
import signal
import time
from itertools import count
from pathlib import Path

import pytest

from apportion.groups.crash_loops import ended, next_try, wait_seconds
from tests.live.crew import CLOCK, Crew, percentiles
from tests.stores.rigs import absent
from tests.stores.rigs.etcd import EtcdRig
from tests.stores.rigs.postgres import PostgresRig
from tests.stores.rigs.sqlite import SqliteRig

pytestmark = pytest.mark.live
NAMES = count()
ENGINES = {"sqlite": SqliteRig, "postgres": PostgresRig, "etcd": EtcdRig}
TTL_SECONDS = {"sqlite": 1.0, "postgres": 1.0, "etcd": 2.0}
LONG_SECONDS = 30.0  # a lease that nobody waits for, on a machine as busy as you like
# A server that answers at once is seen as SQLite is: `make soak` asks PostgreSQL too.
SLOW_ENGINES = ["sqlite", pytest.param("postgres", marks=pytest.mark.soak), "etcd"]
POISON, INNOCENT = 17, sorted({*range(64)} - {17})
FAKE_TIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


@pytest.fixture(scope="module")
def rig(request):
    name = getattr(request, "param", "sqlite")
    try:
        made = SqliteRig(own_disk=False) if name == "sqlite" else ENGINES[name]()
    except FileNotFoundError as error:
        absent(str(error))
    made.ttl_seconds = TTL_SECONDS[name]
    yield made
    asyncio.run(made.close())


@pytest.fixture
def open_crew(rig, tmp_path):
    """Return the function that opens a crew on a group of its own."""
    made = []

    def open_one(partitions, **options):
        options = {"lease_ttl": 2.0} | options
        url, log = rig.url(f"group{next(NAMES)}"), tmp_path / f"{len(made)}.db"
        made.append(Crew(url, str(log), tmp_path / "errors", partitions=partitions, **options))
        return made[-1]

    yield open_one
    for crew in made:
        crew.end()


def test_a_join_and_a_graceful_leave_disturb_nothing_that_stays(open_crew):
    crew = open_crew(64, lease_ttl=LONG_SECONDS)
    crew.start("ann", "bob", "cid")
    crew.until_settled()
    crew.until("all that was gained", lambda: told(crew) == owned(crew))
    before, start = crew.owners(), len(crew.lines)
    crew.start("dan")
    crew.until_settled()
    moved = {partition for partition, owner in crew.owners().items() if owner != before[partition]}
    crew.until("all that was gained", lambda: told(crew) == owned(crew))
    assert 16 == len(moved)
    crew.until("all that was lost", lambda: len(crew.lost(start=start)) >= 16)  # which may be told later than its gain
    assert {"dan"} == {crew.owners()[partition][0] for partition in moved}
    assert sorted(moved) == sorted(partition for partition, _, _ in crew.gained(start=start))
    assert sorted(moved) == sorted(partition for partition, _, _ in crew.lost(start=start))

    before, start, left = crew.owners(), len(crew.lines), CLOCK.elapsed()
    crew.leave("dan")
    crew.until_settled()
    took = CLOCK.elapsed() - left
    crew.until("all that was gained", lambda: told(crew) == owned(crew))
    assert moved == {partition for partition, owner in crew.owners().items() if owner != before[partition]}
    assert sorted(moved) == sorted(partition for partition, _, _ in crew.gained(start=start))
    assert took < LONG_SECONDS  # nobody waits for a lease


def told(crew):
    """Return the member that serves each partition, as the members report."""
    serving = {}
    for line in crew.lines:
        for each in line.get("partitions", ()):
            if line["what"] == "gained":
                serving[each[0]] = line["member"]
    return serving


def owned(crew):
    return {partition: owner for partition, (owner, _, _) in crew.owners().items()}


@pytest.mark.parametrize("partitions", [2, 400], ids=["one", "200"])
def test_a_planned_hand_over_leaves_a_small_gap(open_crew, record_property, partitions):
    crew, gaps = open_crew(partitions, lease_ttl=LONG_SECONDS), []
    crew.start("ann")
    crew.until_settled()
    crew.until("all that was gained", lambda: told(crew) == owned(crew))
    for number in range(8 if partitions == 2 else 2):
        start, name = len(crew.lines), f"bob{number}"
        crew.start(name)
        crew.until_settled()
        crew.until("a newcomer that serves", lambda: told(crew) == owned(crew))
        crew.leave(name)
        crew.until_settled()
        crew.until("all that was gained", lambda at=start: len(crew.gained(start=at)) == partitions)
        crew.until("all that was lost", lambda at=start: len(crew.lost(start=at)) == partitions)
        gaps += gaps_of(crew, start)
    record_property("figures", f"planned hand-over on SQLite, {partitions // 2} at once: {percentiles(gaps)}")
    assert min(gaps) > 0  # never two owners
    assert max(gaps) < LONG_SECONDS  # nobody waits for a lease


def gaps_of(crew, start):
    """Return the seconds from each loss to the gain that followed."""
    events = sorted(
        [(at, partition, "lost") for partition, _, at in crew.lost(start=start)]
        + [(since, partition, "gained") for partition, _, since in crew.gained(start=start)]
    )
    found, lost = [], {}
    for at, partition, what in events:
        if what == "lost":
            lost[partition] = at
        else:
            found.append(at - lost.pop(partition))
    assert {} == lost
    return found


def test_a_static_id_that_is_started_twice_is_refused_and_the_first_goes_on(open_crew):
    crew = open_crew(8, static=True)
    crew.start("ann", "bob")
    crew.until_settled()
    before = crew.owners()
    first = crew.processes.pop("ann")
    crew.launch("ann")
    said = crew.hear("ann")
    assert "DuplicateMember" in said
    assert 1 == crew.gone("ann")
    crew.processes["ann"] = first
    crew.until_settled()
    assert before == crew.owners()


def test_a_static_member_that_was_killed_comes_back_to_what_it_had(open_crew):
    crew = open_crew(12, static=True)
    crew.start("ann", "bob", "cid")
    crew.until_settled()
    before = owned(crew)
    crew.kill("bob")
    crew.start("bob")
    crew.until_settled()
    assert before == owned(crew)


def test_a_rolling_restart_of_static_members_moves_nothing(open_crew):
    crew = open_crew(24, static=True)
    names = ["ann", "bob", "cid", "dan"]
    crew.start(*names)
    crew.until_settled()
    crew.until("all gains told", lambda: owned(crew).items() <= {(each, name) for each, name, _ in crew.gained()})
    before, start = owned(crew), len(crew.lines)
    for name in names:
        crew.leave(name)
        crew.start(name)
        crew.until_settled(*names)
        assert before == owned(crew)
    crew.until("all that was gained", lambda: len(crew.gained(start=start)) >= 24)
    assert before == {partition: name for partition, name, _ in crew.gained(start=start)}
    assert 24 == len(crew.gained(start=start))


@pytest.mark.parametrize("rig", ENGINES, indirect=True)
def test_a_member_whose_event_loop_is_blocked_for_two_leases_keeps_all(open_crew):
    crew = open_crew(8, work={"beat_seconds": 0.05})
    crew.start("ann", "bob")
    crew.until_settled()
    before = crew.owners()
    crew.stall("ann")
    blocked = CLOCK.elapsed()
    crew.until("two leases", lambda: CLOCK.elapsed() > blocked + 4.0)
    assert before == crew.owners()
    assert {"write": "effect", "is_owner": True} == crew.go_on("ann")["ann"]
    crew.look()
    assert before == crew.owners()


def test_a_member_that_is_paused_past_its_lease_comes_back_and_stays(open_crew):
    crew = open_crew(8, lease_ttl=1.0, drain_timeout=0.5, work={"beat_seconds": 0.05})
    crew.start("ann", "bob")
    crew.until_settled()
    crew.pause("ann")
    crew.until("bob alone", lambda: crew.is_settled({"bob"}))
    crew.send(signal.SIGCONT, "ann")
    crew.until_settled()
    owners, back = crew.owners(), CLOCK.elapsed()
    assert [4, 4] == [len(crew.owned_by(name)) for name in ("ann", "bob")]
    crew.until("two drains and leases", lambda: CLOCK.elapsed() > back + 3.0)
    assert owners == crew.owners()


@pytest.mark.parametrize("rig", SLOW_ENGINES, indirect=True)
def test_one_poison_among_64_waits_ever_longer_and_no_innocent_does(open_crew, rig):
    crew = open_crew(64, lease_ttl=rig.ttl_seconds)
    names = [f"m{number}" for number in range(8)]
    crew.start(*names)
    crew.until_settled()
    for name in names:
        crew.say(name, f"poison {POISON}")
    crew.until("four deaths", lambda: len(ended(crew.view, POISON)) >= 4)
    dead = [name for name in names if crew.processes[name].poll() is not None]
    for name in dead:
        assert -signal.SIGKILL == crew.gone(name)
    assert 4 <= len(dead)
    waits = next_try(crew.view, POISON) - crew.view.gone_at(crew.view.owned(POISON))
    assert wait_seconds(len(ended(crew.view, POISON))) == pytest.approx(waits)
    crew.until(
        "owners of all others", lambda: all(crew.view.is_live(crew.view.owned(each).ownership) for each in INNOCENT)
    )


@pytest.mark.parametrize("rig", SLOW_ENGINES, indirect=True)
def test_leaders_that_are_paused_past_their_lease_one_after_another_count_as_no_death(open_crew, rig):
    crew = open_crew(1, lease_ttl=rig.ttl_seconds)
    crew.start("ann", "bob", "cid", "dan")
    for _ in range(4):
        crew.until_settled()
        former = crew.owners()[0]
        crew.pause(former[0])
        crew.until("another leader", leads, crew, former)
        crew.send(signal.SIGCONT, former[0])
        crew.until_settled()
        assert len(ended(crew.view, 0)) <= 1
    assert 4 == len(crew.view.members)


@pytest.mark.parametrize("rig", SLOW_ENGINES, indirect=True)
def test_of_leaders_that_are_killed_one_after_another_the_third_costs_a_second(open_crew, rig):
    crew = open_crew(1, lease_ttl=rig.ttl_seconds)
    crew.start("ann", "bob", "cid", "dan")
    for deaths in (1, 2, 3):
        crew.until_settled()
        former = crew.owners()[0]
        killed = crew.kill(former[0])
        crew.until("another leader", leads, crew, former)
        assert (deaths, True) == (len(ended(crew.view, 0)), CLOCK.elapsed() - killed >= wait_seconds(deaths))


def leads(crew, former):
    """Whether another than the former owner leads."""
    return crew.view.is_live(crew.view.owned(0).ownership) and crew.owners()[0] != former


@pytest.mark.parametrize("rig", ENGINES, indirect=True)
def test_a_mass_kill_delays_nothing(open_crew):
    crew = open_crew(64)
    names = [f"m{number}" for number in range(8)]
    crew.start(*names)
    crew.until_settled()
    crew.kill(*names[::2])
    crew.until_settled()
    assert set(names[1::2]) == set(owned(crew).values())
    assert 1 == max(len(each.ownership.ended) for each in crew.view.own.values())


@pytest.mark.parametrize("rig", ENGINES, indirect=True)
def test_of_two_that_are_killed_one_after_the_other_nothing_waits(open_crew, rig):
    crew = open_crew(240, lease_ttl=rig.ttl_seconds)
    crew.start("ann", "bob", "cid")
    crew.until_settled()
    for name in ("ann", "bob"):
        crew.kill(name)
        crew.until_settled()
    twice = [each for each, owned in crew.view.own.items() if len(owned.ownership.ended) == 2]
    assert 30 <= len(twice)


@pytest.mark.skipif(FAKE_TIME is None, reason="libfaketime is not installed")
@pytest.mark.parametrize("rig", ENGINES, indirect=True)
def test_a_wall_clock_that_steps_an_hour_moves_nothing(open_crew, tmp_path):
    """The clock is that of a member; that of a store's host steps in `test_groups_nasty.py`.

    libfaketime reads the clock's file once a second. Were it to read it at each look at the clock, it would hold up
    its process on a busy machine, for longer than a short lease.
    """
    clock = tmp_path / "clock"
    step(clock, 0)
    faking = {
        "LD_PRELOAD": str(FAKE_TIME), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_CACHE_DURATION": "1",
    }  # fmt: skip
    crew = open_crew(8, lease_ttl=6.0, work={"beat_seconds": 0.05})
    crew.start("ann", environ=faking)
    crew.start("bob")
    crew.until_settled()
    before = crew.owners()
    for seconds in (3600, -3600):
        step(clock, seconds)
        start = len(crew.lines)
        crew.until("a stepped clock", lambda at=start, by=seconds: steps(crew, at) == {("ann", by), ("bob", 0)})
        stepped = CLOCK.elapsed()
        crew.until("a renewal", lambda at=stepped: CLOCK.elapsed() > at + 1.75)
        assert before == crew.owners()


def step(clock, seconds):
    """Set a clock, at one stroke: who reads half a file of libfaketime's reads another time."""
    clock.with_suffix(".new").write_text(f"{seconds:+d}s\n")
    clock.with_suffix(".new").replace(clock)


def steps(crew, start):
    """Return by how much the wall clocks differed from ours at the last effects of each, to a quarter of an hour."""
    ahead = time.time() - CLOCK.elapsed()
    last = {line["member"]: line["wall"] - line["at"] for line in crew.effects(start=start)}
    return {(name, 900 * round((at - ahead) / 900)) for name, at in last.items()}
