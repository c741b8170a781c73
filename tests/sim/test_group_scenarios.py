"""The twelve nastiest scenarios of groups in the seeded world, with the outcome that each must have.

Every transition is checked against all invariants of groups; a test adds only the promise of its own scenario.
`tests/live/test_groups_*.py` repeats the scenarios that real processes can show. Two are real only: a thread that holds
the interpreter's lock (11), and a pooler of connections (9). The world has no threads and no wire for them.
"""

import asyncio
from dataclasses import replace
from itertools import count, pairwise

import pytest

from apportion.balance import catalog
from apportion.groups.controller.controller import Controller
from apportion.groups.crash_loops import ended, next_try, wait_seconds
from apportion.groups.settled import is_at_rest
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import OwnershipRecord, decoded, decoded_target
from apportion.sim.facts import Asked, Changed, Entered, Granted, Left, Wrote
from apportion.sim.invariants.groups import GroupInvariant
from apportion.sim.invariants.ownership import ownership
from apportion.sim.world.process import outside
from apportion.stores import Absent, Put
from apportion.tables.follower import Follower
from tests.groups import next_release
from tests.sim.scenarios.group_worker import POISON, Habits
from tests.sim.scene import GROUP, KEYS, TTL_SECONDS, Scene

SEEDS = [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]


@pytest.fixture(params=SEEDS)
def open_scene(request):
    """Return the function that opens a scene."""
    made = []

    def open_one(**options):
        made.append(Scene(request.param, **options).__enter__())
        return made[-1]

    yield open_one
    for scene in made:
        scene.__exit__(None, None, None)


def facts(scene, kind):
    """Note the facts of a kind from now on; the list that is returned grows."""
    found, record = [], scene.world.checker.add

    def add(fact):
        if isinstance(fact, kind):
            found.append(fact)
        record(fact)

    scene.world.checker.add = add
    return found


# 1


def test_01_the_write_of_an_owner_that_slept_for_three_leases_is_refused(open_scene):
    scene, came = open_scene(), []
    scene.begin("a", "b")
    partition = min(scene.owned_by("a"))
    scene.spawn("a", scene.stalled("a", partition, 0.05, came))
    scene.wait(0.01)
    before = scene.written(partition)
    scene.world.pause("a", 3 * TTL_SECONDS)
    scene.until(lambda: scene.written(partition) > before)
    assert "b" == scene.owners()[partition][0]
    assert [] == came
    scene.until_settled("a", "b")
    assert [False] == came


# 2


@pytest.mark.parametrize("late", [1.3, 1.503, 2.5])
def test_02_a_gift_that_comes_late_takes_nothing_from_an_owner_that_resumed(open_scene, late):
    scene = open_scene(ttl_seconds=6.0)
    scene.begin("k", weight=0.0)
    scene.start("a")
    scene.until_settled("k", "a")
    scene.post.keep(lambda asked: asked.process == "a" and gives(asked, "b"), late)
    scene.start("b")
    scene.until(lambda: scene.post.delayed)
    scene.drain("b", by="k")
    scene.until_settled("k", "a", "b")
    (gift,) = scene.post.delayed
    scene.until(lambda: scene.world.now > gift.asked.at + late + 1.0)
    scene.until_settled("k", "a", "b")
    assert {"a"} == {owner for owner, _, _ in scene.owners().values()}
    kept = [put.key for put in gift.asked.puts]
    if late > 2:  # its owner had long resumed, under the next epoch
        assert [] == gift.applied
    assert all(decoded(OwnershipRecord, scene.world.checker.history.items[key].value).epoch >= 2 for key in kept)


def gives(asked, member_id):
    """Whether a commit makes somebody the owner of something."""
    return any(GroupKeys.parsed(put.key)[1] == "own" and ownership(put.value).owner == member_id for put in asked.puts)


# 3


def test_03_a_claim_whose_reply_is_lost_while_the_target_moves_away_leaves_no_orphan(open_scene):
    scene = open_scene(ttl_seconds=6.0)
    scene.begin("k", weight=0.0)
    asked = facts(scene, Asked)
    scene.start("a")
    scene.until(lambda: any(gives(each, "a") for each in asked), step=0.0002)
    scene.world.partition("store", "a", 1.7, one_way=True)
    scene.start("b")
    scene.until(lambda: targets(scene).count("b") == 2)
    on_paper = {each for each, owner in enumerate(targets(scene)) if owner == "b"}
    assert set(range(4)) == scene.owned_by("a")
    assert set() == scene.held("a")
    entered = facts(scene, Entered)
    scene.until_settled("k", "a", "b")
    assert on_paper == scene.owned_by("b")
    assert {f"{GROUP}/{each}" for each in on_paper}.isdisjoint(fact.resource for fact in entered if fact.process == "a")
    assert scene.world.trace.covered["row IDLE UNWANTED_GRANTED"] == 2


def targets(scene):
    """Return the intended owner of each partition."""
    return decoded_target(scene.world.checker.history.items[KEYS.target].value).owners


# 4


def test_04_of_two_processes_under_one_static_id_one_is_there_and_the_other_waits(open_scene):
    scene = open_scene()
    scene.begin("a", "b", is_static=True)
    before, shown = scene.owners(), facts(scene, Entered)
    scene.start("a again", member_id="a", is_static=True)
    scene.wait(3 * TTL_SECONDS)
    assert before == scene.owners()
    assert {"a", "b"} == {fact.process for fact in shown}
    assert scene.world.trace.covered["part ends: DuplicateMember"] >= 1
    scene.world.pause("a", 3 * TTL_SECONDS)
    scene.until(lambda: any(fact.process == "a again" for fact in shown))
    scene.until_settled("a", "b")
    assert {each: owner for each, (owner, _, _) in before.items()} == {
        each: owner for each, (owner, _, _) in scene.owners().items()
    }
    assert [] == shared_tokens(shown)


# 5


@pytest.mark.slow
def test_05_a_store_that_dies_during_a_move_of_200_ends_no_session_and_moves_each_once(open_scene):
    scene = open_scene(partitions=400, ttl_seconds=4.0)
    habits = Habits(most_seconds=0.0, listens=False, is_deaf=False)
    scene.start("a", habits=habits)
    scene.until(lambda: is_at_rest(scene.view))
    asked, changed, granted = facts(scene, Asked), facts(scene, Changed), facts(scene, Granted)
    scene.start("b", habits=habits)
    scene.until(lambda: any(gives(each, "b") for each in asked), step=0.0002)  # and it is on its way
    sessions = {each: scene.view.session(each) for each in ("a", "b")}
    scene.world.troubles.away_until = scene.world.now + 1.0
    scene.wait(1.0)
    assert set() == scene.owned_by("b")
    scene.world.backing.rearm()
    scene.until(lambda: is_at_rest(scene.view), step=0.05)
    scene.wait(2 * 4.0)
    assert sessions == {each: scene.view.session(each) for each in sessions}
    assert [200, 200] == [len(scene.owned_by(each)) for each in sessions]
    moves = [key for fact in changed for key, _ in fact.items if GroupKeys.parsed(key)[1] == "own"]
    assert 200 == len(moves) == len(set(moves))
    assert 1 == len(granted)


# 6


def test_06_who_slept_through_a_compaction_reads_all_again_and_tables_never_go_back(open_scene):
    scene, shown = open_scene(ttl_seconds=8.0), []

    async def follow():
        follower = Follower(scene.world.store("client"), GROUP, clock=scene.world.clock("client"))
        await follower.start()
        while True:
            if not shown or shown[-1] is not follower.routes:
                shown.append(follower.routes)
            await asyncio.sleep(0.02)

    scene.begin("a", "b")
    scene.spawn("client", follow())
    scene.wait(1.0)
    for process in ("b", "client"):
        scene.world.pause(process, 4.0)
    scene.start("c")
    scene.until(lambda: "c" in scene.view.members)
    scene.leave("c")
    scene.wait(0.5)
    scene.world.backing.compact()
    told = len(shown)
    scene.wait(4.0)
    assert scene.world.trace.covered["watch: Compacted"] == 2
    scene.start("d")
    scene.until_settled("a", "b", "d")
    scene.wait(1.0)
    versions = [routes.version for routes in shown]
    assert len(shown) > told
    assert sorted(set(versions)) == versions
    assert [shown[-1].owner(each) for each in range(4)] == [owner for owner, _, _ in scene.owners().values()]


def test_06_a_compaction_that_a_live_session_sleeps_through_costs_it_nothing(open_scene):
    scene = open_scene(ttl_seconds=8.0, partitions=8)
    scene.begin("a", "b")
    held = {each: dict(scene.driver(each).holdings) for each in ("a", "b")}
    scene.world.pause("b", 3.0)
    scene.start("c", weight=0.0)
    scene.until(lambda: "c" in scene.view.members)
    scene.leave("c")
    scene.world.backing.compact()
    scene.wait(4.0)
    assert scene.world.trace.covered["watch: Compacted"] >= 1
    for each, before in held.items():
        now = scene.driver(each).holdings
        assert before.keys() == now.keys()
        assert all(now[partition] is holding for partition, holding in before.items())
        assert 1 == scene.driver(each).statistics.sessions
    scene.start("d")
    scene.until_settled("a", "b", "d")


# 7


@pytest.mark.slow
def test_07_controllers_of_two_releases_that_plan_at_once_bound_the_churn_and_converge(open_scene, monkeypatch):
    plan_as_another_release(monkeypatch, "b")
    scene = open_scene(partitions=6)
    written = facts(scene, Changed)
    scene.start("a")
    scene.until(lambda: scene.view.leading is not None)
    scene.start("b")
    scene.until_settled("a", "b")
    assert "a" == leader(scene)
    scene.post.keep(lambda asked: any(put.key == KEYS.target for put in asked.puts), 4.0)
    scene.start("c")
    scene.until(lambda: scene.post.delayed)
    scene.world.kill("a")  # its last plan is on its way, and comes when the other release plans
    scene.until(lambda: leader(scene) == "b")
    scene.start("a")
    scene.until_settled("a", "b", "c")
    (late,) = scene.post.delayed
    scene.until(lambda: late.answered or scene.world.now > late.asked.at + 6.0)
    scene.until_settled("a", "b", "c")
    assert [] == late.applied
    assert ("c", "b", "a", "c", "b", "a") == targets(scene)
    scene.leave("b")
    scene.until_settled("a", "c")
    scene.until(lambda: leader(scene) == "a")
    start, at = len(written), scene.owners()
    scene.wait(10.0)
    assert (start, at) == (len(written), scene.owners())
    keys = [key for fact in written for key, item in fact.items if item is not None]
    came_and_went = len([key for key in keys if GroupKeys.parsed(key)[1] == "member"]) + 2
    assert keys.count(KEYS.target) <= came_and_went + keys.count(KEYS.controller)


def plan_as_another_release(monkeypatch, *releases):
    """Let the processes that lead under some ids plan as the next release does, in the same group."""

    def controller(view, options, tell):
        made = next_release.Controller if options.member_id in releases else Controller
        return made(view, options, tell)

    spec = replace(catalog.get("optimal"), name=next_release.BALANCER, owners=next_release.dealt)
    monkeypatch.setattr(catalog, "_foreign", lambda: {next_release.BALANCER: spec})
    monkeypatch.setattr("apportion.groups.life.parts.Controller", controller)


def leader(scene):
    """Return the present leader."""
    leading = scene.view.leading
    return None if leading is None else leading.holder.split(" ")[0]


# 8


def test_08_who_reaches_the_store_alone_keeps_all_and_its_clients_see_it_again(open_scene):
    scene = open_scene()
    scene.begin("a", "b")
    before, written = scene.owners(), facts(scene, Wrote)
    scene.world.partition("a", "sink", 4 * TTL_SECONDS)
    scene.wait(1.0)
    start = len(written)
    scene.wait(4 * TTL_SECONDS - 1.5)
    assert {"b"} == {fact.holder.split(" ")[0] for fact in written[start:]}
    assert before == scene.owners()
    start = len(written)
    scene.until(lambda: {fact.resource for fact in written[start:]} == {f"{GROUP}/{each}" for each in before})
    assert before == scene.owners()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["both ways", "to the store", "from the store"])
def test_08_who_reaches_its_clients_alone_stops_in_time_and_others_go_on(open_scene, how):
    scene = open_scene()
    scene.begin("a", "b")
    lost, written, entered = scene.owned_by("a"), facts(scene, Wrote), facts(scene, Entered)
    link = ("store", "a") if how == "from the store" else ("a", "store")
    cut = scene.world.now
    scene.world.partition(*link, 8 * TTL_SECONDS, one_way=how != "both ways")
    scene.until(lambda: lost <= scene.owned_by("b"), seconds=6 * TTL_SECONDS)
    scene.until(
        lambda: (
            {fact.resource for fact in written if fact.at > cut and fact.holder.startswith("b ")}
            >= {f"{GROUP}/{each}" for each in range(4)}
        )
    )
    assert max(fact.at for fact in entered if fact.process == "a") < cut + TTL_SECONDS
    scene.until_settled("a", "b")


# 9


@pytest.mark.parametrize("lost_seconds", [0.2, 3.0])
def test_09_epochs_never_repeat_after_a_failover_to_a_replica_that_lags_or_a_restore(open_scene, lost_seconds):
    scene = open_scene()
    scene.begin("a", "b")
    written, entered = facts(scene, Wrote), facts(scene, Entered)
    copy = scene.world.backing.save()
    scene.start("c")
    scene.wait(lost_seconds)
    scene.world.restore(copy, "is restored from a copy")
    scene.until_settled("a", "b", "c")
    scene.wait(0.5)  # until each has worked in the new life
    assert [] == shared_tokens(entered)
    tokens = {}
    for fact in written:
        assert tokens.get(fact.resource, (0, 0)) <= (fact.incarnation, fact.epoch)
        tokens[fact.resource] = (fact.incarnation, fact.epoch)
    assert {2} == {incarnation for incarnation, _ in tokens.values()}


def test_09_nobody_serves_a_store_that_went_back_and_says_so_to_nobody_until_an_operator_does(open_scene):
    scene = open_scene(held=None)  # a store whose life does not tell breaks its own promises
    scene.begin("a", "b")
    copy, written = scene.world.backing.save(), facts(scene, Wrote)
    scene.start("c")
    scene.until_settled("a", "b", "c")
    restored_untold(scene, copy)
    back, seen = scene.world.now, scene.driver("a").view.revision
    scene.wait(3 * TTL_SECONDS)
    scene.world.run(scene.world.spawn("another", written_past(scene.world.store("another"), seen)))
    scene.wait(3 * TTL_SECONDS)
    assert [] == [fact for fact in written if fact.at > back + TTL_SECONDS]
    assert {"a": set(), "b": set(), "c": set()} == {each: scene.held(each) for each in "abc"}
    scene.world.restore(copy, "is restored, and an operator says so")
    scene.until_settled("a", "b", "c")
    assert {1, 2} == {fact.incarnation for fact in written}
    assert [] == shared_tokens(written)


async def written_past(store, revision):
    """Write keys of no group, until the store is past a revision."""
    for number in count():
        key = f"of/another/{number}"
        outcome = await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=b"")])
        if outcome.revision > revision:
            return


def shared_tokens(used):
    """Return the tokens that more than one holder has used."""
    holders = {}
    for fact in used:
        holders.setdefault((fact.resource, fact.incarnation, fact.epoch), set()).add(fact.holder)
    return [token for token, several in holders.items() if len(several) > 1]


def restored_untold(scene, copy):
    """Put a copy in the place of the store's data, under the life in which it was made."""
    life = scene.world.backing.incarnation
    scene.world.restore(copy, "is restored from a copy, and tells nobody")
    scene.world.backing.incarnation = scene.world.backing._memory.ledger.incarnation = life


# 10


def test_10_steps_of_wall_clocks_move_nothing(open_scene):
    scene = open_scene()
    scene.begin("a", "b")
    before, changed, written = scene.owners(), facts(scene, Changed), facts(scene, Wrote)
    for seconds in (3600.0, -7200.0, 3600.0):
        scene.world.processes.known("a").wall_offset += seconds
        scene.wait(TTL_SECONDS)
        start = len(written)
        scene.wait(TTL_SECONDS)
        assert {f"{GROUP}/{each}" for each in before} == {fact.resource for fact in written[start:]}
    assert before == scene.owners()
    assert [] == changed


@pytest.mark.parametrize("rate", [0.95, 1.05])
def test_10_a_clock_that_drifts_by_a_twentieth_still_stops_before_its_successor_begins(open_scene, rate):
    scene = open_scene()
    scene.world.processes.living("a").rate = rate
    scene.begin("a", "b")
    lost = {f"{GROUP}/{each}" for each in scene.owned_by("a")}
    entered, left = facts(scene, Entered), facts(scene, Left)
    scene.world.partition("a", "store", 4 * TTL_SECONDS)
    scene.until(lambda: lost <= {fact.resource for fact in entered if fact.process == "b"})
    mine = {fact.hold for fact in entered if fact.process == "a" and fact.resource in lost}
    assert max(fact.at for fact in left if fact.hold in mine) < min(
        fact.at for fact in entered if fact.process == "b" and fact.resource in lost
    )
    scene.until_settled("a", "b")


def test_10_a_machine_that_was_suspended_goes_on_with_one_owner_each(open_scene):
    scene, came = open_scene(), []
    scene.begin("a", "b", "c")
    sessions = {each: scene.view.session(each) for each in "abc"}
    for process in "abc":
        scene.spawn(process, scene.stalled(process, min(scene.owned_by(process)), 0.05, came))
    scene.wait(0.01)
    for process in "abc":
        scene.world.pause(process, 3600.0)
    scene.until(lambda: len(came) == 3, seconds=3610.0, step=10.0)
    scene.until_settled("a", "b", "c")
    assert all(scene.view.session(each) > session for each, session in sessions.items())


# 11


def test_11_work_that_takes_two_leases_loses_nothing_while_renewals_go_on(open_scene):
    scene, came = open_scene(), []
    scene.begin("a", "b")
    before, written = scene.owners(), facts(scene, Changed)
    scene.spawn("a", scene.stalled("a", min(scene.owned_by("a")), 2 * TTL_SECONDS, came))
    scene.until(lambda: came)
    assert [True] == came
    assert before == scene.owners()
    assert [] == written


def test_11_work_whose_renewals_starve_is_cancelled_before_others_begin(open_scene):
    scene = open_scene()
    scene.begin("a", "b")
    partition, entered, ended = min(scene.owned_by("a")), facts(scene, Entered), []

    async def work():
        driver, task = scene.driver("a"), asyncio.current_task()
        _, hold = driver.holdings.enter(partition, task.cancel)
        try:
            await asyncio.sleep(30.0)
        except asyncio.CancelledError:
            ended.append(scene.world.now)
        driver.holdings.leave(hold)

    scene.spawn("a", work())
    scene.world.network.clog("a", "store", 2 * TTL_SECONDS)
    scene.until(lambda: any((each.process, each.resource) == ("b", f"{GROUP}/{partition}") for each in entered))
    assert len(ended) == 1
    assert ended[0] < min(each.at for each in entered if (each.process, each.resource) == ("b", f"{GROUP}/{partition}"))
    scene.until_settled("a", "b")


# 12


class NoMoreThanThrottled(GroupInvariant):
    """The planned moves under way stay within the throttle: partitions that a present member is to give away.

    A claim of a moment ago does not count: the controller may not know of it yet.
    """

    throttle = 3
    _moment_seconds = 0.5

    def __init__(self, history, report):
        super().__init__(history, report)
        self._claimed = {}

    def look(self, fact):
        """Look at the moves that a new target asks for."""
        for key, item in fact.items:
            kind, name = GroupKeys.parsed(key)[1:]
            if item is not None and kind == "own":
                self._claimed[int(name)] = fact.at
            elif item is not None and kind == "target":
                self._count(decoded_target(item.value), fact.at)

    def _count(self, target, at):
        old = [each for each, claimed in self._claimed.items() if claimed < at - self._moment_seconds]
        owned = {each: ownership(self.history.items[KEYS.own(each)].value) for each in old}
        to_give = [each for each, own in owned.items() if own.owner and own.owner != target.owner(each)]
        live = [each for each in to_give if (KEYS.member(owned[each].owner), owned[each].session) in self.live]
        self.figure = max(self.figure, len(live))
        if len(live) > self.throttle:
            self.broken(f"{len(live)} planned moves are under way")


@pytest.mark.slow
def test_12_a_poison_in_a_crash_loop_waits_ever_longer_while_half_of_all_members_leave_at_once(open_scene):
    scene = open_scene(partitions=64, throttle=NoMoreThanThrottled.throttle, held=(NoMoreThanThrottled,))
    names, deaths = [f"m{number:02}" for number in range(16)], []

    def die(process):
        deaths.append(scene.world.now)
        scene.world.kill(process)
        scene.world.loop.call_later(0.5, start, f"{process}'", context=outside())  # by a supervisor

    def start(process):
        scene.start(process, dies=die)

    for name in names:
        start(name)
    scene.until(lambda: len(deaths) == 1, step=0.05)
    scene.leave(*sorted(scene.view.members)[:8])
    scene.until(lambda: len(deaths) == 6, seconds=90.0, step=0.05)
    # A life with the poison takes a second and a time to live; from the third death on the next owner waits.
    for died, (before, after) in enumerate(pairwise(deaths), start=1):
        assert after - before > wait_seconds(died) + 1
    scene.until(lambda: [POISON] == scene.unowned(), seconds=20.0, step=0.05)
    waits = next_try(scene.view, POISON) - scene.view.gone[ended(scene.view, POISON)[-1]]
    assert wait_seconds(6) == pytest.approx(waits)
    assert 0 < scene.world.checker.figures["NoMoreThanThrottled"] <= NoMoreThanThrottled.throttle


def test_12_members_that_pause_past_their_lease_one_after_another_delay_nothing(open_scene):
    scene = open_scene(partitions=1)
    scene.start("a", "b", "c", "d")
    for _ in range(6):
        scene.until(lambda: scene.unowned() == [])
        (owner,) = {owner for owner, _, _ in scene.owners().values()}
        scene.world.pause(owner, TTL_SECONDS + 0.5)
        paused_at = scene.world.now
        scene.until(lambda before=owner: scene.owners()[0][0] not in (None, before) and not scene.unowned(), step=0.05)
        assert scene.world.now - paused_at <= TTL_SECONDS + 0.7
        scene.until(lambda: len(scene.view.members) == 4)


def test_12_what_a_leaver_cannot_hand_over_it_frees_and_its_leaving_is_no_death(open_scene):
    scene = open_scene(partitions=4)
    scene.begin("a", "b", "c")
    (leader,) = [name for name in "abc" if scene.driver(name).controller.term is not None]
    (leaver, *_) = [name for name in "abc" if name != leader]
    scene.world.pause(leader, 60.0)  # nobody plans for the leaver before the lease of the controller has ended
    scene.leave(leaver)
    scene.until(lambda: not {owner for owner, _, _ in scene.owners().values()} & {leader, leaver, None}, step=0.05)
    assert not [each for each, owned in scene.view.own.items() if len(owned.ownership.ended) > 1]
