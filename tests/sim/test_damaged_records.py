"""A bad record costs itself: 200 malformed records, one after another, in a group of three and a newcomer.

Of each kind bytes, types, depth and range; see `tests/groups/malformed.py`. After each all partitions but the damaged
are served, by members that never ended; a newcomer joins and gets its share; `group repair` brings the rest back.
"""

import pytest

from apportion.groups.admin.repair import mend as mend_group
from apportion.sim.invariants.groups import NoLiveOverlap, TokensAreUnique
from apportion.stores import Absent, Committed, Put, Unchanged
from tests.groups.malformed import mixed
from tests.sim.scene import GROUP, KEYS, TTL_SECONDS, Scene

MEMBERS, NEWCOMER = ("a", "b", "c"), "n"
PARTITIONS, RECORDS = 8, 200
SECONDS = 12.0
SERVED_SECONDS = 61.0  # after so long no session that a damage ended counts against a partition


@pytest.fixture
def open_scene():
    made = []

    def open_one(seed):
        scene = Scene(seed, partitions=PARTITIONS, held=None, alone=(NoLiveOverlap, TokensAreUnique)).__enter__()
        made.append(scene)
        scene.start("a", is_static=True)
        scene.start("b", "c")
        scene.until(lambda: served(scene, *MEMBERS) == set(range(PARTITIONS)))
        return scene

    yield open_one
    for scene in made:
        scene.__exit__(None, None, None)


def served(scene, *members):
    """Return the partitions that members hold now, each by one of them, if all these are there; else none."""
    if not {KEYS.member(each) for each in members} <= scene.world.checker.history.items.keys():
        return set()
    held = [partition for each in members for partition in scene.held(each)]
    assert len(held) == len(set(held))
    return set(held) if all(scene.held(each) for each in members) else set()


def healthy(scene):
    """Return the partitions whose records are not damaged."""
    return {each for each in range(PARTITIONS) if not scene.driver("a").view.is_damaged(each)}


def damage(scene, key, value, *, keeps_lease):
    """Write a record over what is there, as somebody who is no member."""
    item = scene.world.checker.history.items.get(key)

    async def write():
        when = Absent(key=key) if item is None else Unchanged(key=key, revision=item.revision)
        put = Put(key=key, value=value, lease=item.lease if item is not None and keeps_lease else None)
        return await scene.world.store("op").commit(when=[when], puts=[put])

    return isinstance(scene.world.run(write()), Committed)


@pytest.mark.parametrize("seed", range(4))
def test_nobody_takes_over_from_a_damaged_member_whose_work_goes_on(seed, open_scene):
    scene, came = open_scene(seed), []
    partition = min(scene.held("b"))
    scene.spawn("b", scene.stalled("b", partition, 1.5, came))
    while not damage(scene, KEYS.member("b"), b"{}", keeps_lease=True):
        scene.wait(0.01)
    scene.until(lambda: came)
    assert [True] == came, "the guard saw no newer token before"
    scene.until(lambda: served(scene, *MEMBERS) == set(range(PARTITIONS)), seconds=SECONDS)


@pytest.mark.parametrize("lease", ["its own", "another member's"])
@pytest.mark.parametrize("value", ["the same", "damaged"])
def test_a_member_comes_back_after_its_record_was_written_anew(value, lease, open_scene):
    scene = open_scene(1)
    items, of = scene.world.checker.history.items, KEYS.member("c" if lease == "another member's" else "b")
    session = items[KEYS.member("b")].revision

    async def write():
        item = items[KEYS.member("b")]
        put = Put(key=item.key, value=item.value if value == "the same" else b"{}", lease=items[of].lease)
        return await scene.world.store("op").commit(when=[Unchanged(key=item.key, revision=item.revision)], puts=[put])

    assert isinstance(scene.world.run(write()), Committed)
    written = items[KEYS.member("b")].revision
    scene.until(lambda: scene.driver("b").member.session not in (0, session, written), seconds=TTL_SECONDS + 1.5)
    scene.until(lambda: served(scene, *MEMBERS) == set(range(PARTITIONS)), seconds=SECONDS)
    assert not scene.view.damaged
    assert not scene.unowned()


def mend(scene):
    async def work():
        return await mend_group(scene.world.store("op"), GROUP, "the store")

    return scene.world.run(work())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "count"), [(1, 24), (2, 48), *[
        pytest.param(seed, RECORDS, marks=pytest.mark.soak) for seed in range(2, 13)]],
)  # fmt: skip
def test_of_malformed_records_each_costs_itself_alone(seed, count, open_scene):
    scene, survived = open_scene(seed), 0
    for key, value, keeps_lease in mixed(seed, count, group=GROUP, members=MEMBERS, partitions=PARTITIONS):
        while not damage(scene, key, value, keeps_lease=keeps_lease):
            scene.wait(0.01)
        scene.until(lambda: served(scene, *MEMBERS) >= healthy(scene), seconds=SECONDS)
        scene.start(NEWCOMER)
        scene.until(lambda: served(scene, *MEMBERS, NEWCOMER) >= healthy(scene), seconds=SECONDS)
        scene.leave(NEWCOMER)
        mend(scene)
        scene.until(lambda: served(scene, *MEMBERS) == set(range(PARTITIONS)), seconds=SECONDS)
        scene.wait(SERVED_SECONDS)
        survived += 1
    assert count == survived
    print(f"{survived} of {count} malformed records survived (seed {seed})")
