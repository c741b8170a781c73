"""The store is away for 60 s, with a time to live of 10 s: nobody writes without a deadline, and then nothing moves.

The fifth of the nastiest scenarios, for longer than a lease. Real stores and processes show the same in 10 s with a
time to live of 4 s: `tests/live/test_groups_failover.py`.
"""

import pytest

from apportion.groups.session import MARGIN_RATIO
from apportion.groups.view.keys import GroupKeys
from apportion.sim.facts import Changed, Entered, Wrote
from tests.sim.scene import GROUP, Scene

MEMBERS, PARTITIONS = ("a", "b", "c", "d"), 16
TTL_SECONDS, AWAY_SECONDS = 10.0, 60.0


@pytest.fixture(params=[0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def open_scene(request):
    """Return what opens a scene in which members share all partitions; its `facts` are noted from then on."""
    made = []

    def open_one(**options):
        scene = Scene(request.param, partitions=PARTITIONS, ttl_seconds=TTL_SECONDS).__enter__()
        made.append(scene)
        scene.begin(*MEMBERS, **options)
        scene.facts, record = [], scene.world.checker.add

        def add(fact):
            scene.facts.append(fact)
            record(fact)

        scene.world.checker.add = add
        return scene

    yield open_one
    for scene in made:
        scene.__exit__(None, None, None)


def take_away(scene, *, leases_end):
    """Take the store away, let that go by, and return from when until when it was.

    A store that is down counts no time of its leases; one that only nobody reaches does, so that all of them end.
    """
    lost = scene.world.now
    back = scene.world.troubles.away_until = lost + AWAY_SECONDS
    while scene.world.now < back:
        scene.wait(min(1.0, back - scene.world.now))
        if not leases_end:
            scene.world.backing.rearm()
        if lost + TTL_SECONDS < scene.world.now < back:
            assert [set()] * len(MEMBERS) == [scene.held(each) for each in MEMBERS]
    return lost, back


def check_nobody_worked_without_a_deadline(scene, lost, back):
    """Work that began before the deadline may write a moment later; none begins."""
    meanwhile = [fact for fact in scene.facts if lost < fact.at < back]
    begun = [fact.at for fact in meanwhile if isinstance(fact, Entered)]
    written = [fact.at for fact in meanwhile if isinstance(fact, Wrote)]
    assert lost < max(begun) < lost + TTL_SECONDS * (1 - MARGIN_RATIO)
    assert lost < max(written) < lost + TTL_SECONDS


def until_all_written(scene, back):
    """Wait until every partition was written since the store is back, and some time more."""
    every = {f"{GROUP}/{each}" for each in range(PARTITIONS)}
    scene.until(lambda: {fact.resource for fact in scene.facts if isinstance(fact, Wrote) and fact.at > back} == every)
    scene.wait(2 * TTL_SECONDS)


def written_keys(scene, since, *kinds):
    """Return the keys of some kinds that the store was told since a time."""
    changes = [fact for fact in scene.facts if isinstance(fact, Changed) and fact.at >= since]
    return [key for fact in changes for key, _ in fact.items if GroupKeys.parsed(key)[1] in kinds]


@pytest.mark.slow
@pytest.mark.parametrize("is_static", [False, True], ids=["dynamic", "static"])
def test_05_a_store_that_is_down_for_six_leases_moves_nothing_and_all_go_on_under_their_tokens(open_scene, is_static):
    scene = open_scene(is_static=is_static)
    before, sessions = scene.owners(), [scene.view.session(each) for each in MEMBERS]
    lost, back = take_away(scene, leases_end=False)
    check_nobody_worked_without_a_deadline(scene, lost, back)
    until_all_written(scene, back)
    assert before == scene.owners()  # member, session and epoch of each
    assert sessions == [scene.view.session(each) for each in MEMBERS]
    assert [] == written_keys(scene, lost, "own", "target", "member", "controller")


@pytest.mark.slow
def test_05_static_members_whose_leases_ended_while_nobody_reached_the_store_get_back_what_they_had(open_scene):
    scene = open_scene(is_static=True)
    before, sessions = scene.owners(), [scene.view.session(each) for each in MEMBERS]
    lost, back = take_away(scene, leases_end=True)
    check_nobody_worked_without_a_deadline(scene, lost, back)
    until_all_written(scene, back)
    after = scene.owners()
    assert all(scene.view.session(each) > session for each, session in zip(MEMBERS, sessions, strict=True))
    assert {each: owner for each, (owner, _, _) in before.items()} == {
        each: owner for each, (owner, _, _) in after.items()
    }
    assert {each: epoch + 1 for each, (_, _, epoch) in before.items()} == {
        each: epoch for each, (_, _, epoch) in after.items()
    }
    assert [] == written_keys(scene, back, "target")
