"""The reaper: what is renewed in time is never ended, what is abandoned is ended soon, however reads are delayed."""

from hypothesis import given
from hypothesis import strategies as st

from apportion.stores.reaper import Counter, Reaper, pause_seconds

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
    longest = pause_seconds([Counter(lease=1, renewals=0, ttl_seconds=TTL_SECONDS), *crowd])
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
    assert 0 < pause_seconds(counters) <= (0.5 if not counters else min(0.5, 0.25 * ttl))
