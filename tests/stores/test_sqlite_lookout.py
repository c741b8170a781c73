"""The lookout of SQLite: a write of this process is not looked up where it follows what was seen, and hides nothing."""

import asyncio

import pytest

from apportion.errors import StoreWentBack
from apportion.stores.reaper import Counter
from apportion.stores.sqlite import lookout
from apportion.stores.sqlite.ledger import LedgerState
from apportion.stores.sqlite.lookout import SqliteLookout


class Clock:
    def __init__(self, now=0.0):
        self.now = now

    def elapsed(self):
        return self.now


class File:
    """A file that always has changed, and whose history is that of a story."""

    moved = False

    def __init__(self):
        self.history, self.asked, self.polls, self.life = [], [], 0, 1

    def write(self, key):
        """Let somebody write a key; return the revision."""
        self.history.append(key)
        return len(self.history)

    async def data_version(self):
        self.polls += 1
        return 0, self.polls

    async def read(self, work):
        if self.life < 0:
            raise StoreWentBack("the file", "revision 2", "revision 1")
        return work(None)

    def state(self, _):
        return LedgerState(self.life, len(self.history), 0)

    def touched(self, _, after, most):
        self.asked.append(after)
        return self.history[after:][:most]


@pytest.fixture
def file(monkeypatch):
    made = File()
    monkeypatch.setattr(lookout.ledger, "state", made.state)
    monkeypatch.setattr(lookout.ledger, "touched", made.touched)
    return made


def looked(file, story):
    """Run a story with a lookout that knows the state of the file, and a watch of the keys below b; then look once."""

    async def main():
        looking = SqliteLookout(file, Clock())
        looking._reap_at = float("inf")
        await looking._look()
        watch = looking._watchers.join(b"a", b"b")
        story(looking)
        event, file.asked[:] = watch.next_change(), []
        await looking._look()
        return event.is_set()

    return asyncio.run(main())


def test_a_write_that_follows_what_was_seen_is_not_looked_up(file):
    file.write(b"a0")
    assert not looked(file, lambda looking: looking.wrote([b"a1"], at=file.write(b"a1")))
    assert [] == file.asked


def test_a_write_after_one_of_another_process_hides_it_from_no_watch(file):
    file.write(b"a0")

    def story(looking):
        file.write(b"a1")  # of another process
        looking.wrote([b"b1"], at=file.write(b"b1"))

    assert looked(file, story)
    assert [1] == file.asked


def test_a_write_that_is_older_than_what_was_seen_takes_nothing_back(file):
    for key in (b"a0", b"a1", b"a2"):
        file.write(key)
    assert not looked(file, lambda looking: looking.wrote([b"b1"], at=2))
    assert [] == file.asked


@pytest.mark.parametrize(("life", "forgotten"), [(1, 0), (2, 1)])
def test_what_was_read_of_leases_is_forgotten_in_another_life_of_the_store_only(file, life, forgotten, monkeypatch):
    counted = []

    def story(looking):
        monkeypatch.setattr(looking._reaper, "forget", lambda: counted.append(1))
        file.write(b"a1")
        file.life = life

    assert looked(file, story)
    assert forgotten == len(counted)


def test_a_store_that_went_back_wakes_the_watches_and_they_get_the_error(file):
    file.write(b"a0")
    assert looked(file, lambda _: setattr(file, "life", -1))


@pytest.mark.parametrize("missing", [0, 1])
def test_a_look_that_may_have_missed_keys_wakes_every_watch(file, missing):
    keys = [b"b"] * (lookout._MOST_KEYS - missing)
    assert (missing == 0) == looked(file, lambda _: file.history.extend(keys))


@pytest.mark.parametrize(("reap_at", "expected"), [(60.0, 0.06), (0.02, 0.02), (0.0, 0.0), (-1.0, 0.0)])
def test_a_quiet_lookout_looks_again_when_leases_are_to_be_read(file, reap_at, expected):
    looking = SqliteLookout(file, Clock(8.0))
    looking._reap_at = 8.0 + reap_at
    assert expected == pytest.approx(looking._pause_seconds(60.0))


def test_a_read_of_all_leases_forgets_those_of_this_process_that_have_ended(file, monkeypatch):
    counters = [Counter(lease=7, renewals=1, ttl_seconds=2.0)]
    monkeypatch.setattr(lookout.ledger, "counters", lambda _, most: counters[:most])
    looking = SqliteLookout(file, Clock())
    looking.leases |= {7, 8}
    asyncio.run(looking._reap())
    assert ({7}, 0.1) == (looking.leases, looking._reap_at)


def test_a_history_that_grew_shorter_within_one_life_wakes_every_watch(file):
    for key in (b"a0", b"a1"):
        file.write(key)
    assert looked(file, lambda _: file.history.pop())
