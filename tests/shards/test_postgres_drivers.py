"""The fence holds for each driver at each isolation level: one writer, and two first writers of a slot that arrives.

The order of a race is forced by locks. The mover of these tests is SQL by hand: it locks, fences, copies the rows, and
switches. A user sees `StaleRoute` and no other error. No acknowledged write is lost, and none is there twice.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from time import monotonic, sleep

import pytest
from sqlalchemy import select

from apportion.errors import InvalidInput
from tests.shards.drivers import DRIVERS, PATIENCE_SECONDS, opened
from tests.shards.fence_races import fence_slot
from tests.shards.moved_slots import FR, ends, visits
from tests.shards.sample import Place
from tests.shards.server import as_role
from tests.stores.rigs.postgres import USER

pytestmark = pytest.mark.live
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
COPIED = "INSERT INTO place (id, country, visits, slot) VALUES (%s, %s, %s, %s)"


@pytest.fixture(scope="module")
def files(make_set):
    made = make_set("postgresql")
    for shard in made.shards:
        made.sql(shard, f"ALTER DATABASE {made.name(shard)} SET deadlock_timeout = '20ms'")
    return made


class Race:
    """A slot with its shard and the other one, a router, and threads for those that wait."""

    def __init__(self, files, driven, pool):
        self.files = files
        self.slot, self.here, self.there = ends(driven.router)
        self._driven, self._pool, self._version = driven, pool, driven.router.version

    def session(self):
        """Open a session of the slot."""
        return self._driven.session(FR)

    def state(self):
        """Return the state of the slot's row."""
        return self.files.sql(self.here, "SELECT state FROM apportion_slot WHERE slot = ?", (self.slot,))[0][0]

    def rows(self):
        """Return the rows of both shards."""
        return [visits(self.files, shard) for shard in (self.here, self.there)]

    def begun(self, call, *values):
        """Begin a call, and wait until it waits for a lock. Return its future."""
        return self.all_begun([partial(call, *values)])[0]

    def all_begun(self, calls):
        """Begin calls, and wait until all of them wait for a lock of the shard. Return their futures."""
        begun, until = [self._pool.submit(each) for each in calls], monotonic() + PATIENCE_SECONDS
        while self.files.sql(self.here, WAITING) != [(len(calls),)]:
            assert not any(each.done() for each in begun), [each.result(0) for each in begun if each.done()]
            assert monotonic() < until
            sleep(0.002)
        return begun

    def fence(self, mover):
        """Lock and fence the slot, and copy its rows. The transaction stays open."""
        fence_slot(mover, "moved", self.slot)
        rows = mover.execute("SELECT id, country, visits, slot FROM place WHERE slot = %s", (self.slot,)).fetchall()
        with self.files.connect(self.there) as target:
            target.execute("SET session_replication_role = replica")
            target.cursor().executemany(COPIED, rows)

    def switch(self, mover):
        """Publish the table, open the target, and commit the fence."""
        self._version = number = self.files.publish(self.slot, self.there)
        self.files.state(self.there, self.slot, "incoming", number.number, number.incarnation)
        mover.commit()

    def await_table(self):
        """Wait until the router has the table of the last switch."""
        until = monotonic() + PATIENCE_SECONDS
        while self._driven.router.version < self._version:
            assert monotonic() < until
            sleep(0.002)

    def move(self):
        """Move the slot at once."""
        with self.files.connect(self.here) as mover:
            self.fence(mover)
            self.switch(mover)


@pytest.fixture(scope="module", params=product(DRIVERS, LEVELS), ids=lambda each: f"{each[0]} {each[1].lower()}")
def driven(request, files):
    """A set that is open with a driver at an isolation level."""
    driver, level = request.param
    with pytest.MonkeyPatch.context() as patched:
        as_role(patched, USER)
        with opened(files.url, driver, isolation_level=level) as made:
            yield made


@pytest.fixture
def pool():
    """Threads for those that wait."""
    with ThreadPoolExecutor(2) as made:
        yield made


@pytest.fixture
def race(files, driven, pool):
    """A race of the slot, on the shard that has it now. Its rows are deleted afterwards."""
    made = Race(files, driven, pool)
    yield made
    made.await_table()
    for shard in files.shards:
        files.sql(shard, "SET session_replication_role = replica; DELETE FROM place")


def writes(number):
    """Return the act that writes a row, without a commit."""

    def act(session):
        session.add(Place(country=FR, visits=number))
        session.flush()

    return act


def reads(session):
    """Read all rows of the slot."""
    return session.scalars(select(Place.visits)).all()


def in_flight(race):
    """The writer has written. The mover waits for its end, and takes the row along."""
    writer = race.session()
    writer.do(writes(1))
    with race.files.connect(race.here) as mover:
        fencing = race.begun(race.fence, mover)
        ended = [writer.end(lambda session: None)]
        fencing.result(PATIENCE_SECONDS)
        race.switch(mover)
    ended.append(writer.end(writes(2)))
    writer.close()
    return ended, [1], [1]


def behind_the_fence(race):
    """The writer comes while the mover holds its lock, and waits for it. Then it goes to the new shard."""
    writer = race.session()
    with race.files.connect(race.here) as mover:
        race.fence(mover)
        writing = race.begun(writer.end, writes(1))
        race.switch(mover)
        ended = [writing.result(PATIENCE_SECONDS)]
    ended.append(writer.end(writes(2)))
    writer.close()
    return ended, [], [1, 2]


def before_a_retreat(race):
    """The writer waits for a mover that takes its fence back, and stays on its shard."""
    writer = race.session()
    with race.files.connect(race.here) as mover:
        fence_slot(mover, "fenced", race.slot)
        writing = race.begun(writer.end, writes(1))
        mover.execute("UPDATE apportion.slot SET state = 'owner' WHERE slot = %s", (race.slot,))
        mover.commit()
        ended = [writing.result(PATIENCE_SECONDS)]
    writer.close()
    return ended, [1], []


def after_a_read(race):
    """The writer has read the old shard in an earlier transaction. It is refused, and so is all that it does after."""
    writer = race.session()
    assert [] == writer.do(reads)
    writer.do(lambda session: session.commit())
    race.move()
    ended = [writer.end(writes(1))]
    with pytest.raises(InvalidInput, match="one that got StaleRoute"):
        writer.do(writes(2))
    writer.close()
    fresh = race.session()
    ended.append(fresh.end(writes(3)))
    fresh.close()
    return ended, [], [3]


ACCEPTED, STALE = "accepted", "StaleRoute"
ONE_WRITER = {
    in_flight: [ACCEPTED, STALE],
    behind_the_fence: [ACCEPTED, ACCEPTED],
    before_a_retreat: [ACCEPTED],
    after_a_read: [STALE, ACCEPTED],
}


@pytest.mark.parametrize("story", ONE_WRITER)
def test_each_write_of_one_writer_is_on_the_shard_of_its_slot_once_or_refused_as_stale(race, story):
    ended, before, after = story(race)
    assert ONE_WRITER[story] == ended
    assert [before, after] == race.rows()


@pytest.fixture
def arrival(race, files, driven, pool):
    """A race on the new shard of the slot. No transaction of this process has settled the slot there."""
    race.move()
    race.await_table()
    driven.router.settled({race.slot})  # as in a process that began after the switch
    return Race(files, driven, pool)


@pytest.mark.parametrize(("ending", "left"), [("commit", [1, 2, 3]), ("rollback", [2, 3])])
def test_a_second_first_writer_is_accepted_after_the_end_of_the_first_one(arrival, ending, left):
    first, second = arrival.session(), arrival.session()
    first.do(writes(1))
    writing = arrival.begun(second.end, writes(2))
    assert "incoming" == arrival.state()
    first.do(lambda session: getattr(session, ending)())
    ended = [writing.result(PATIENCE_SECONDS), second.end(writes(3))]
    for each in (first, second):
        each.close()
    assert ([ACCEPTED, ACCEPTED], [left, []], "owner") == (ended, arrival.rows(), arrival.state())


def test_two_first_writers_that_lock_each_other_out_are_both_accepted(arrival):
    """Both wait for the end of a reader. Outside READ COMMITTED they wait for each other too, and one begins anew."""
    writers = [arrival.session(), arrival.session()]
    with arrival.files.connect(arrival.here) as blocker:
        blocker.execute("SELECT FROM apportion.slot WHERE slot = %s FOR SHARE", (arrival.slot,))
        begun = arrival.all_begun([partial(writer.end, writes(number)) for number, writer in enumerate(writers)])
        blocker.rollback()
    ended = [each.result(PATIENCE_SECONDS) for each in begun]
    for each in writers:
        each.close()
    assert ([ACCEPTED, ACCEPTED], [[0, 1], []], "owner") == (ended, arrival.rows(), arrival.state())
