"""The reaper: a lease renewed in time is never ended, an abandoned one is ended soon, however reads are delayed."""

import heapq
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.stores.reaper import MOST_WITHOUT_READERS, READERS, Counter, Reaper

TTL_SECONDS = 2.0
delays = st.floats(0.0, 30.0, allow_nan=False)


def reads_of(pauses, durations):
    """Yield when each read starts, when the counter is looked at (somewhere within), and when it has finished."""
    now = 0.0
    for pause, (before, after) in zip(pauses, durations, strict=False):
        started = now + pause
        now = started + before + after
        yield started, started + before, now


def renewals_at(moment, renewed_at):
    return sum(at <= moment for at in renewed_at)


@pytest.mark.slow
@given(
    gaps=st.lists(st.floats(0.0, TTL_SECONDS, exclude_max=True), min_size=200, max_size=200),
    pauses=st.lists(delays, min_size=1, max_size=60),
    durations=st.lists(st.tuples(delays, delays), min_size=60, max_size=60),
)
def test_a_lease_that_is_renewed_within_its_time_is_never_ended(gaps, pauses, durations):
    renewed_at, at = [], 0.0
    for gap in gaps:
        at += gap
        renewed_at.append(at)
    reaper = Reaper()
    for started, looked, finished in reads_of(pauses, durations):
        if looked > at:
            break  # the holder has stopped by then
        counter = Counter(lease=1, renewals=renewals_at(looked, renewed_at), ttl_seconds=TTL_SECONDS)
        assert () == reaper.ended([counter], started=started, finished=finished)


@given(
    last=st.floats(0.0, 20.0),
    share=st.floats(0.1, 1.0),
    others=st.integers(0, 500),
)
def test_an_abandoned_lease_is_ended_within_its_time_and_two_pauses(last, share, others):
    crowd = [Counter(lease=2 + number, renewals=0, ttl_seconds=60.0) for number in range(others)]
    reaper, now = Reaper(), 0.0
    longest = pause_of([Counter(lease=1, renewals=0, ttl_seconds=TTL_SECONDS), *crowd])
    while True:
        counter = Counter(lease=1, renewals=int(now >= last), ttl_seconds=TTL_SECONDS)
        if any(each.lease == 1 for each in reaper.ended([counter, *crowd], started=now, finished=now)):
            break
        assert now <= last + TTL_SECONDS + 2 * longest
        now += share * longest
    assert now >= TTL_SECONDS


def test_a_lease_is_not_ended_on_the_word_of_a_read_that_began_too_early():
    reaper = Reaper()
    counter = Counter(lease=1, renewals=0, ttl_seconds=TTL_SECONDS)
    # The first read took a minute: the counter may have been looked at just before its end.
    assert () == reaper.ended([counter], started=0.0, finished=60.0)
    # The second began in time and took a minute too: the counter may have been looked at when it began.
    assert () == reaper.ended([counter], started=61.9, finished=130.0)
    assert (counter,) == reaper.ended([counter], started=130.0, finished=130.0)


def test_a_lease_that_was_away_from_one_read_begins_anew():
    reaper = Reaper()
    counter = Counter(lease=1, renewals=0, ttl_seconds=TTL_SECONDS)
    reaper.ended([counter], started=0.0, finished=0.0)
    reaper.ended([], started=1.0, finished=1.0)
    assert () == reaper.ended([counter], started=5.0, finished=5.0)


@given(counts=st.integers(0, 3_000), ttl=st.floats(0.1, 3_600.0))
def test_a_pause_is_never_longer_than_a_quarter_of_the_time_to_live(counts, ttl):
    counters = [Counter(lease=number, renewals=0, ttl_seconds=ttl) for number in range(1, counts + 1)]
    assert 0 < pause_of(counters) <= (0.5 if not counters else min(0.5, 0.25 * ttl))


@pytest.mark.parametrize(
    ("count", "seconds"), [(0, 0.5), (1, 0.05), (50, 0.05), (100, 0.1), (250, 0.25), (1_000, 0.25)]
)
def test_reapers_that_all_read_everything_read_more_seldom_the_more_there_is(count, seconds):
    counters = [Counter(lease=number, renewals=0, ttl_seconds=1.0) for number in range(count)]
    assert seconds == pytest.approx(pause_of(counters))


def pause_of(counters):
    reaper = Reaper()
    reaper.ended(counters, started=0.0, finished=0.0)
    return reaper.pause_seconds()


class Fleet:
    """Processes of one lease each, with reapers that read and end the leases of the dead, on a simulated clock."""

    def __init__(self, count, *, seed, mute=()):
        self.random = random.Random(seed)
        self.leases = dict.fromkeys(self.random.sample(range(1, 10000), count), 0)
        self.watching = [lease for lease in sorted(self.leases) if lease not in mute]
        self.reapers = {lease: Reaper(own={lease}) for lease in self.leases}
        self.rows, self.ended_at, self.dead = 0, {}, {}

    def lowest(self, count):
        return sorted(self.leases)[:count]

    def run(self, since, until):
        """Play reads and renewals in the order of their times."""
        due = [(since + self.random.random(), "read", lease) for lease in self.watching]
        due += [(since + self.random.random() * TTL_SECONDS / 4, "renew", lease) for lease in self.leases]
        heapq.heapify(due)
        while due[0][0] < until:
            now, what, lease = heapq.heappop(due)
            if lease in self.dead or lease not in self.leases:
                continue
            if what == "renew":
                self.leases[lease] += 1
                heapq.heappush(due, (now + TTL_SECONDS / 4, what, lease))
            else:
                self._read(now, lease)
                heapq.heappush(due, (now + self.reapers[lease].pause_seconds(), what, lease))

    def kill(self, leases, *, at):
        self.dead |= dict.fromkeys(leases, at)

    def _read(self, now, reader):
        reaper = self.reapers[reader]
        most = reaper.most(now)
        shown = sorted(self.leases)[:most]
        self.rows += len(shown)
        counters = [Counter(lease=lease, renewals=self.leases[lease], ttl_seconds=TTL_SECONDS) for lease in shown]
        for ended in reaper.ended(counters, started=now, finished=now, most=most):
            assert ended.lease in self.dead, "a lease was ended whose holder renews"
            del self.leases[ended.lease]
            self.ended_at[ended.lease] = now


@pytest.mark.slow
@settings(max_examples=20)
@given(count=st.integers(1, 80), victims=st.integers(1, 10), seed=st.integers(0, 10**6))
def test_in_a_fleet_each_dead_holder_is_found_soon_while_a_reader_lives(count, victims, seed):
    fleet = Fleet(count + 1, seed=seed)
    fleet.run(0.0, 10.0)
    choice = [lease for lease in fleet.leases if lease != fleet.lowest(1)[0]]
    fleet.kill(fleet.random.sample(choice, min(victims, len(choice))), at=10.0)
    fleet.run(10.0, 40.0)
    assert set(fleet.dead) == set(fleet.ended_at)
    assert all(at - 10.0 <= 1.25 * TTL_SECONDS + 1.0 for at in fleet.ended_at.values())  # reads begin within a second


@pytest.mark.slow
@settings(max_examples=20)
@given(count=st.integers(MOST_WITHOUT_READERS + 1, 80), seed=st.integers(0, 10**6))
def test_when_all_readers_die_at_once_the_others_find_them_and_read_in_their_place(count, seed):
    fleet = Fleet(count, seed=seed)
    fleet.run(0.0, 10.0)
    fleet.kill([*fleet.lowest(READERS), fleet.lowest(count)[-1]], at=10.0)
    fleet.run(10.0, 40.0)
    assert set(fleet.dead) == set(fleet.ended_at)
    assert max(at for at in fleet.ended_at.values()) - 10.0 <= 2.25 * TTL_SECONDS + 1.0


def test_leases_that_nobody_renews_have_no_readers_and_every_reaper_reads_all():
    reaper = Reaper(own={99})
    left = [Counter(lease=number, renewals=0, ttl_seconds=60.0) for number in range(1, 40)]
    for now in range(60):
        assert reaper.most(float(now)) is None
        assert () == reaper.ended(left, started=float(now), finished=float(now))


@pytest.mark.slow
@settings(max_examples=20)
@given(count=st.integers(MOST_WITHOUT_READERS + 1, 60), seed=st.integers(0, 10**6))
def test_where_the_lowest_leases_are_of_processes_that_do_not_watch_the_dead_are_found_late_but_found(count, seed):
    probe = Fleet(count, seed=seed)
    fleet = Fleet(count, seed=seed, mute=probe.lowest(READERS))
    fleet.run(0.0, 10.0)
    fleet.kill([fleet.lowest(count)[-1]], at=10.0)
    fleet.run(10.0, 10.0 + count * TTL_SECONDS)
    assert set(fleet.dead) == set(fleet.ended_at)


@pytest.mark.slow
def test_the_reads_of_a_fleet_grow_with_its_leases_and_not_with_their_square():
    rows = {}
    for count in (20, 40, 60, 120, 240):
        fleet = Fleet(count, seed=count)
        fleet.run(0.0, 20.0)
        before = fleet.rows
        fleet.run(20.0, 40.0 + count * TTL_SECONDS / 4)
        rows[count] = (fleet.rows - before) / (20.0 + count * TTL_SECONDS / 4)
    assert rows[240] <= 2.2 * rows[120] <= 2.2**2 * rows[60]
    assert rows[60] <= rows[40] * 1.7 <= rows[20] * 1.7
    assert rows[60] * TTL_SECONDS / 10.0 <= 480  # rows a second at a time to live of 10 seconds
