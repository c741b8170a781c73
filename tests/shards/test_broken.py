"""The suites find shards and channels that break a promise, and the cases that find each of them are these."""

import pytest

from apportion.errors import ApportionError
from apportion.sim.conformance.shards.suite import check_shards, shard_cases
from tests.shards import broken
from tests.shards.memory_rig import MemoryRig
from tests.shards.sqlite_rig import SqliteRig

CASES = {case.name: case for case in shard_cases()}
OF_TOKENS = ("an older token changes nothing on a shard", "an equal token of another holder is refused")
OF_THE_LOG = ("an entry is forgotten after the target has its row",)
FOUND_BY = {
    broken.forgets_first: (SqliteRig, OF_THE_LOG),
    broken.shows_no_token: (SqliteRig, OF_TOKENS),
    broken.compares_loosely: (SqliteRig, ("another case of a letter is found",)),
    broken.disturbs_no_chunk: (
        SqliteRig,
        ("rows that were read before the log was applied are not written after it",),
    ),
    broken.forgets_first_in_a_world: (MemoryRig, OF_THE_LOG),
    broken.shows_no_token_in_a_world: (MemoryRig, OF_TOKENS),
}


@pytest.mark.parametrize(
    ("breaks", "name"), [(breaks, name) for breaks, (_, names) in FOUND_BY.items() for name in names]
)
def test_a_broken_promise_is_found(breaks, name, monkeypatch):
    rig = FOUND_BY[breaks][0]
    breaks(monkeypatch)
    with pytest.raises((AssertionError, ApportionError)):
        check_shards(CASES[name], rig())


@pytest.mark.parametrize("name", sorted({name for _, names in FOUND_BY.values() for name in names}))
@pytest.mark.parametrize("rig", [SqliteRig, MemoryRig])
def test_the_same_cases_pass_on_what_is_shipped(rig, name):
    check_shards(CASES[name], rig())
