"""The class of tests that runs the suites of a shard and a channel by pytest: one test per case.

TestMyShards = certify_shards(MyRig)      # in a file of tests
"""

from collections.abc import Callable

import pytest

from apportion.sim.conformance.shards.case import ShardCase
from apportion.sim.conformance.shards.rig import ShardRig
from apportion.sim.conformance.shards.suite import check_shards, shard_cases


def certify_shards(rig: Callable[[], ShardRig], *, has_log: bool = True) -> type:
    """Return a class of tests that runs every case against a rig.

    `has_log`: the channel copies in chunks and logs keys. Other channels skip the cases about chunks and logs.
    """
    cases = [each for each in shard_cases() if has_log or not each.needs_log]

    class ShardConformance:
        """All cases against one kind of shard."""

        @pytest.mark.parametrize("case", [pytest.param(each, id=each.name.replace(" ", "_")) for each in cases])
        def test(self, case: ShardCase) -> None:
            """Run one case."""
            check_shards(case, rig())

    return ShardConformance
