"""Members of a group, each a process: those that leave, come twice, sleep, block or are poisoned, and what stays put.

All is on SQLite; what depends on the store is in the other files.
"""

import asyncio
import signal
from itertools import count
from pathlib import Path

import pytest

from tests.live.crew import CLOCK, Crew, percentiles
from tests.stores.rigs.sqlite import SqliteRig

pytestmark = pytest.mark.live
NAMES = count()
POISON, INNOCENT = 17, sorted({*range(64)} - {17})
FAKE_TIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


@pytest.fixture(scope="module")
def rig():
    made = SqliteRig(own_disk=False)
    yield made
    asyncio.run(made.close())


@pytest.fixture
def open_crew(rig, tmp_path):
    """Return what opens a crew on a group of its own."""
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
    crew = open_crew(64, lease_ttl=10.0)
    crew.start("ann", "bob", "cid")
    crew.until_settled()
    crew.until("all that was gained", lambda: told(crew) == owned(crew))
    before, start = crew.owners(), len(crew.lines)
    crew.start("dan")
    crew.until_settled()
    moved = {partition for partition, owner in crew.owners().items() if owner != before[partition]}
    crew.until("all that was gained", lambda: told(crew) == owned(crew))
    assert 16 == len(moved)
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
    assert took < 10.0  # nobody waits for a lease


def told(crew):
    """Return who serves each partition, as the members say."""
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
    crew, gaps = open_crew(partitions, lease_ttl=10.0), []
    crew.start("ann")
    crew.until_settled()
    crew.until("all that was gained", lambda: told(crew) == owned(crew))
    for number in range(8 if partitions == 2 else 2):
        start, name = len(crew.lines), f"bob{number}"
        crew.start(name)
        crew.until_settled()
        crew.leave(name)
        crew.until_settled()
        crew.until("all that was gained", lambda at=start: len(crew.gained(start=at)) == partitions)
        crew.until("all that was lost", lambda at=start: len(crew.lost(start=at)) == partitions)
        gaps += gaps_of(crew, start)
    record_property("figures", f"planned hand-over on SQLite, {partitions // 2} at once: {percentiles(gaps)}")
    assert min(gaps) > 0  # never two owners
    assert max(gaps) < 5.0


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
    before, start = owned(crew), len(crew.lines)
    for name in names:
        crew.leave(name)
        crew.start(name)
        crew.until_settled(*names)
        assert before == owned(crew)
    crew.until("all that was gained", lambda: len(crew.gained(start=start)) >= 24)
    assert before == {partition: name for partition, name, _ in crew.gained(start=start)}
    assert 24 == len(crew.gained(start=start))


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


def test_one_poison_among_64_is_quarantined_and_no_innocent_is(open_crew):
    crew = open_crew(64, lease_ttl=1.0)
    names = [f"m{number}" for number in range(8)]
    crew.start(*names)
    crew.until_settled()
    for name in names:
        crew.say(name, f"poison {POISON}")
    crew.until("quarantine", lambda: crew.view.owned(POISON).ownership.deaths >= 3)
    dead = [name for name in names if crew.processes[name].poll() is not None]
    for name in dead:
        assert -signal.SIGKILL == crew.gone(name)
    assert 3 == len(dead)
    assert {POISON: None} == {
        each: owned.ownership.owner for each, owned in crew.view.own.items() if owned.ownership.deaths >= 3
    }
    crew.until(
        "owners of all others", lambda: all(crew.view.is_live(crew.view.owned(each).ownership) for each in INNOCENT)
    )


def test_a_mass_kill_quarantines_nothing(open_crew):
    crew = open_crew(64)
    names = [f"m{number}" for number in range(8)]
    crew.start(*names)
    crew.until_settled()
    crew.kill(*names[::2])
    crew.until_settled()
    assert set(names[1::2]) == set(owned(crew).values())
    assert 1 == max(each.ownership.deaths for each in crew.view.own.values())


@pytest.mark.skipif(FAKE_TIME is None, reason="libfaketime is not installed")
def test_a_wall_clock_that_steps_an_hour_moves_nothing(open_crew, tmp_path):
    clock = tmp_path / "clock"
    clock.write_text("+0s\n")
    faking = {
        "LD_PRELOAD": str(FAKE_TIME), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_NO_CACHE": "1",
    }  # fmt: skip
    crew = open_crew(8, work={"beat_seconds": 0.05})
    crew.start("ann", environ=faking)
    crew.start("bob")
    crew.until_settled()
    before = crew.owners()
    for step in ("+1h", "-1h"):
        clock.write_text(f"{step}\n")
        stepped, start = CLOCK.elapsed(), len(crew.lines)
        crew.until("two leases", lambda at=stepped: CLOCK.elapsed() > at + 4.0)
        assert {"ann", "bob"} == {line["member"] for line in crew.effects(start=start)}
        assert before == crew.owners()
