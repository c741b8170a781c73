"""The suite finds stores that break a promise, and the cases that find each of them are these."""

import pytest

from apportion.errors import ApportionError
from apportion.sim.conformance import Impossible, cases, check
from tests.stores import broken
from tests.stores.rigs.memory import MemoryRig

PATIENCE_SECONDS = 0.3
CASES = {case.name: case for case in cases()}
FOUND_BY = {
    "Torn": (
        "a commit of many keys happens at one revision",
        "a commit of too many operations is refused and never split",
        "a scan shows one revision",
        "a commit is seen whole",
        "a put with a dead lease writes nothing",
    ),
    "Careless": (
        "one compare that fails stops a whole commit",
        "a key that was rewritten is not unchanged",
        "the same value written again is a change",
        "a key made anew is not the one that was deleted",
        "a refused commit is not seen",
    ),
    "Merging": (
        "several writes of one key are all seen",
        "a key that came and went between two looks is seen",
        "a watch from the past goes on into the present",
        "a revoked lease takes its keys at once",
    ),
    "SilentLedger": (
        "a lease that is not renewed ends in time",
        "all keys of a lease go in one change",
        "a revoked lease takes its keys at once",
        "a compare sees the end of a lease",
    ),
    "HauntedLedger": (
        "all keys of a lease go in one change",
        "an item tells its lease",
        "a key rewritten without its lease stays",
        "a lease that nobody watches ends where the store decides",
    ),
    "ReusingLedger": (
        "a key that came and went between two looks is seen",
        "a watch from the past goes on into the present",
        "ids of leases are not used again",
        "no lease is given again after a restore",
    ),
    "Denying": (
        "increments through many handles add up",
        "a lost reply is never called a failure",
        "a scan sees what was acknowledged before it began",
    ),
    "Trusting": (
        "a watch from the future is refused",
        "a handle sees that an old copy was restored",
        "a watch sees that an old copy was restored",
    ),
    "Skipping": ("a watch whose history is gone says so",),
    "Immortal": ("a closed handle is dead", "a forked child holds a dead handle"),
    "Wide": ("a prefix ends where it ends", "a scan of thousands of items is whole"),
    "ForgivingLedger": ("a put with a dead lease writes nothing",),
}


@pytest.mark.slow
@pytest.mark.parametrize(("store", "name"), [(store, name) for store, names in FOUND_BY.items() for name in names])
def test_a_broken_store_is_found(store, name):
    with pytest.raises((AssertionError, ApportionError)):
        check(CASES[name], broken.rig_of(store), patience_seconds=PATIENCE_SECONDS)


@pytest.mark.parametrize("name", sorted({name for names in FOUND_BY.values() for name in names}))
def test_a_sound_store_is_not_found_in_the_same_haste(name):
    assert check(CASES[name], MemoryRig(), patience_seconds=PATIENCE_SECONDS) is None


def test_at_least_three_stores_are_found_by_at_least_three_cases():
    assert 3 <= sum(len(names) >= 3 for names in FOUND_BY.values())


def test_a_rig_is_not_excused_by_a_promise_that_its_store_makes():
    class Lazy(MemoryRig):
        async def compact(self):
            raise Impossible("fencing", "too much work")

    with pytest.raises(AssertionError, match="the store promises this, and its rig cannot test it: fencing"):
        check(CASES["a watch whose history is gone says so"], Lazy())


def test_a_rig_is_excused_by_what_its_store_does_not_promise():
    class Modest(MemoryRig):
        async def compact(self):
            raise Impossible("durable", "there is nothing to forget")

    assert check(CASES["a watch whose history is gone says so"], Modest()) == "durable"


def test_every_case_is_a_sentence_with_a_promise_of_its_own():
    assert 40 <= len(CASES) == len(cases())
    assert len(CASES) == len({case.promise for case in cases()})
    assert [] == [case.name for case in cases() if not case.promise.endswith(".")]
