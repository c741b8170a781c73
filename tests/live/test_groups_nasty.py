"""The nastiest scenarios of groups with real processes, on every store that can show them, beside those of other files.

All twelve are in `tests/sim/test_group_scenarios.py`. Simulated only: a gift that comes late and a claim whose reply is
lost (2, 3), for which a test must hold back a single message.
"""

import asyncio
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import count

import pytest

from apportion import sync
from apportion.groups.settled import is_at_rest
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, encoded
from apportion.groups.view.view import View
from apportion.stores import administration
from apportion.stores.api import Absent, Put
from tests.live.crew import CLOCK, Crew
from tests.live.test_groups_guarded import stale
from tests.live.test_groups_members import gaps_of
from tests.stores.rigs import absent
from tests.stores.rigs.etcd import EtcdRig
from tests.stores.rigs.postgres import PostgresRig
from tests.stores.rigs.sqlite import SqliteRig
from tests.stores.test_postgres_server import bouncer  # noqa: F401 - a fixture

pytestmark = pytest.mark.live
NAMES = count()
ENGINES = {"sqlite": SqliteRig, "postgres": PostgresRig, "etcd": EtcdRig}
SERVERS = ["postgres", "etcd"]
TTL_SECONDS = {"sqlite": 1.0, "postgres": 1.0, "etcd": 2.0}
THROTTLE = 2


@pytest.fixture(scope="module")
def rig(request):
    try:
        made = ENGINES[request.param]()
    except FileNotFoundError as error:
        absent(str(error))
    made.ttl_seconds = TTL_SECONDS[request.param]
    yield made
    asyncio.run(made.close())


@pytest.fixture
def open_crew(rig, tmp_path):
    """Return the function that opens a crew on a group of its own; its log is a file, on every store."""
    made = []

    def open_one(partitions, **options):
        options = {"lease_ttl": rig.ttl_seconds, "work": {"beat_seconds": 0.05}} | options
        namespace, log = f"nasty{next(NAMES)}", tmp_path / f"{len(made)}.db"
        crew = Crew(rig.url(namespace), str(log), tmp_path / "errors", partitions=partitions, **options)
        crew.namespace = namespace
        made.append(crew)
        return crew

    yield open_one
    for crew in made:
        crew.end()


def until_served(crew):
    """Wait until the running members share the partitions, and have written each under the token of today."""
    start = len(crew.lines)
    crew.until_settled()
    crew.until("effects", is_served, crew, start)


def is_served(crew, start):
    """Whether each partition was written by its owner, since a line."""
    written = {(line["partition"], line["member"], line["epoch"][1]) for line in crew.effects(start=start)}
    return all((each, owner, epoch) in written for each, (owner, _, epoch) in crew.owners().items())


def wait(crew, seconds):
    """Let time pass and watch: the test waits for nothing to happen."""
    began = CLOCK.elapsed()
    crew.until("time", lambda: CLOCK.elapsed() > began + seconds)


# 4


@pytest.mark.parametrize("rig", SERVERS, indirect=True)
def test_a_static_id_that_is_started_twice_is_refused_and_the_first_goes_on(open_crew):
    crew = open_crew(4, static=True, lease_ttl=2.0)
    crew.start("ann", "bob")
    until_served(crew)
    before, first = crew.owners(), crew.processes.pop("ann")
    crew.launch("ann")
    assert "DuplicateMember" in crew.hear("ann")
    assert 1 == crew.gone("ann")
    crew.processes["ann"] = first
    until_served(crew)
    assert before == crew.owners()


# 6


@pytest.mark.parametrize("rig", ["sqlite", "postgres"], indirect=True)
def test_who_slept_through_a_compaction_reads_all_again(open_crew, rig):
    crew = open_crew(8, lease_ttl=30.0)
    crew.start("ann", "bob")
    until_served(crew)
    (sleeper,) = {"ann", "bob"} - {leader(crew)}
    crew.pause(sleeper)
    crew.start("cid")
    crew.until("a target", lambda: "cid" in crew.view.target.owners)
    asyncio.run(rig.compact())
    crew.send(signal.SIGCONT, sleeper)
    until_served(crew)
    assert [] == stale(crew.effects())


# 7, and two releases on one store


@pytest.mark.parametrize("rig", ENGINES, indirect=True)
def test_a_rolling_deploy_of_a_release_that_says_more_and_plans_otherwise_converges(open_crew):
    crew = open_crew(8, lease_ttl=2.0)
    crew.start("ann", "bob")
    until_served(crew)
    crew.start("cid", is_next_release=True)
    until_served(crew)
    old = leader(crew)
    assert old in ("ann", "bob")
    crew.pause(old)
    crew.until("another leader", lambda: crew.is_settled(set(crew.processes) - {old}) and leader(crew) != old)
    crew.send(signal.SIGCONT, old)  # it believes to lead, and plans
    until_served(crew)
    before = crew.view.target.generation
    crew.leave("ann", "bob")
    crew.start("dan", "eve", is_next_release=True)
    until_served(crew)
    assert crew.view.target.generation <= before + 2 * 3 + 2  # leaves, ends and joins; and a new leader or two
    settled = crew.owners(), crew.view.target.generation
    assert ("eve", "dan", "cid", "eve", "dan", "cid", "eve", "dan") == crew.view.target.owners
    wait(crew, 1.0)
    assert settled == (crew.owners(), crew.view.target.generation)
    assert [] == stale(crew.effects())


def leader(crew):
    """Return the leader."""
    return None if crew.view.leading is None else crew.view.leading.holder.split(" ")[0]


@pytest.mark.parametrize("rig", ["sqlite"], indirect=True)
def test_a_group_of_a_format_that_this_release_does_not_know_is_refused(open_crew):
    crew = open_crew(4)
    said = encoded(GroupRecord(partitions=4, format=2))
    crew._store.commit(when=[Absent(key=crew.view.keys.record)], puts=[Put(key=crew.view.keys.record, value=said)])
    crew.launch("ann")
    assert "format of group work" in crew.hear("ann")
    assert 1 == crew.gone("ann")


# 8


class Deafener:
    """A proxy that passes all words of clients, and can hold back those of the server."""

    def __init__(self, target):
        self._target, self._is_deaf = target, False
        self._ends, self._listener = [], socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def deafen(self):
        """Lose all replies from now on."""
        self._is_deaf = True

    def heal(self):
        """Pass all that is said on connections from now on; those of before cannot be mended."""
        self._is_deaf = False
        self._cut()

    def close(self):
        """End."""
        self._listener.close()
        self._cut()

    def _cut(self):
        ends, self._ends = self._ends, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        with suppress(OSError):
            while True:
                client, server = self._listener.accept()[0], socket.create_connection(self._target)
                self._ends += [client, server]
                threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source, target, is_reply):
        with source, suppress(OSError):
            while data := source.recv(1 << 16):
                if not (is_reply and self._is_deaf):
                    target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("rig", SERVERS, indirect=True)
def test_who_is_heard_by_the_store_and_hears_nothing_stops_and_others_take_over(open_crew, rig):
    crew = open_crew(8, lease_ttl=2.0)
    with closing(Deafener(rig.address())) as proxy:
        crew.start("ann", url=rig.url(crew.namespace, address=proxy.address))
        crew.start("bob")
        until_served(crew)
        deaf, start = CLOCK.elapsed(), len(crew.lines)
        proxy.deafen()
        crew.until("bob alone", lambda: len(crew.owned_by("bob")) == 8)
        crew.until("effects of bob", lambda: is_served(crew, start))
        assert max(line["at"] for line in crew.effects(start=start) if line["member"] == "ann") < deaf + 2.0
        proxy.heal()
        until_served(crew)
        assert [4, 4] == [len(crew.owned_by(name)) for name in ("ann", "bob")]
        assert [] == stale(crew.effects())
        crew.kill("ann")


# 9


@pytest.mark.parametrize("rig", ENGINES, indirect=True)
def test_after_a_restore_from_a_copy_no_token_is_given_again(open_crew, rig):
    crew = open_crew(4)
    crew.start("ann", "bob")
    until_served(crew)
    asyncio.run(rig.save())
    until_served(crew)
    crew.start("cid")
    until_served(crew)
    life, start = crew.view.incarnation, len(crew.lines)
    if rig.name != "sqlite":
        asyncio.run(rig.kill())
    away = CLOCK.elapsed()  # from now on nothing is renewed
    asyncio.run(rig.restore())
    if rig.name != "sqlite":  # which sees by itself that another file is there
        wait(crew, 2.5 * rig.ttl_seconds)
        assert [] == [
            line for line in crew.lines[start:] if line["what"] != "lost" and line["at"] > away + rig.ttl_seconds
        ]
        asyncio.run(administration(rig.url(crew.namespace)).restored())
    crew.until("another life", lambda: crew.view.incarnation > life)
    until_served(crew)
    assert {crew.view.incarnation} == {line["epoch"][0] for line in crew.effects(start=start)} - {life}
    assert [] == stale(crew.effects())


@pytest.mark.parametrize("rig", ["postgres"], indirect=True)
def test_behind_a_pooler_of_transactions_a_killed_member_is_followed(open_crew, rig, bouncer):  # noqa: F811
    crew = open_crew(4)
    url = rig.url(crew.namespace, address=bouncer.address)
    crew.start("ann", "bob", "cid", url=url)
    until_served(crew)
    crew.kill("bob")
    until_served(crew)
    assert [] == stale(crew.effects())


# 10


@pytest.mark.parametrize("rig", ["postgres"], indirect=True)
def test_a_wall_clock_of_the_server_that_steps_an_hour_moves_nothing(open_crew, rig):
    """On PostgreSQL alone: SQLite has no server, and etcd cannot be shown.

    libfaketime does not reach Go, which asks the kernel and no function of libc, and a namespace of its own gives a
    process another monotonic clock but no other wall clock. What members do when their own clock steps is in
    `test_groups_members.py`, on all three.
    """
    crew = open_crew(4, lease_ttl=6.0)
    crew.start("ann", "bob")
    until_served(crew)
    before = crew.owners()
    for seconds in (3600, -3600):
        asyncio.run(rig.step_clock(seconds))
        wait(crew, 1.5)
        assert before == crew.owners()
    asyncio.run(rig.step_clock(0))
    until_served(crew)


# 11


@pytest.mark.parametrize("rig", ENGINES, indirect=True)
def test_who_holds_the_lock_of_the_interpreter_for_two_leases_loses_all_and_comes_back(open_crew, rig):
    crew = open_crew(4)
    crew.start("ann", "bob")
    until_served(crew)
    start, choked = len(crew.lines), CLOCK.elapsed()
    crew.say("ann", "choke")
    crew.until("bob alone", lambda: crew.is_settled({"bob"}))
    crew.until("effects of bob", lambda: is_served(crew, start))
    crew.until("two leases", lambda: CLOCK.elapsed() > choked + 2 * rig.ttl_seconds)
    crew.say("ann", "breathe")
    until_served(crew)
    assert [2, 2] == [len(crew.owned_by(name)) for name in ("ann", "bob")]
    assert [] == stale(crew.effects())


# 12


@pytest.mark.parametrize("rig", ENGINES, indirect=True)
def test_when_half_of_all_leave_at_once_moves_are_throttled_and_never_overlap(open_crew, rig):
    crew, names = open_crew(12, lease_ttl=10.0, throttle=THROTTLE, work={}), ["ann", "bob", "cid", "dan"]
    crew.start(*names)
    crew.until_settled()
    crew.until("all that was gained", lambda: len(crew.gained()) - len(crew.lost()) == 12)
    start = len(crew.lines)
    with ThreadPoolExecutor(1) as pool, sync.open_store(rig.url(crew.namespace)) as store:
        scan = store.scan(crew.view.keys.live)
        watching = pool.submit(moves_under_way, store, scan, until={"cid", "dan"})
        crew.send(signal.SIGTERM, "ann", "bob")
        assert [0, 0] == [crew.gone(name) for name in ("ann", "bob")]
        assert 0 < max(watching.result(60)) <= THROTTLE
    crew.until("all that was gained", lambda: len(crew.gained(start=start)) == len(crew.lost(start=start)) >= 6)
    assert min(gaps_of(crew, start)) > 0


def moves_under_way(store, scan, *, until):
    """Return how many partitions were to be given away by a living owner, at each change until a group is at rest."""
    view, counts = View(GroupKeys(group="work"), GroupRecord(partitions=12)), []
    view.load(scan, 0.0)
    for change in store.watch(view.keys.live, after=scan.revision):
        view.apply(change, 0.0)
        live = {each: owned.ownership.owner for each, owned in view.own.items() if view.is_live(owned.ownership)}
        counts.append(sum(owner != view.target.owner(each) for each, owner in live.items()))
        if set(view.members) == until and is_at_rest(view):
            return counts
    return counts
