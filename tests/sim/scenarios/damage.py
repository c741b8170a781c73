"""The scenario of damaged records: the group scenario, while a vandal writes bytes over group records.

A damaged record costs only itself. Once nothing fails any more, an operator mends the remaining damage, as `apportion
group repair` does: a partition then belongs to nobody, under an epoch that was never given.
The scenario checks the promises that no damage excuses: no token comes twice, no process is ended, and all comes to
rest.
Refuses: the promise that no two members overlap. A member whose record is overwritten without its lease is no member
from that moment, but it goes on until it has seen that. Until then, guards protect from its work.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from apportion.errors import ApportionError, BadSnapshot
from apportion.groups.admin.repair import mend
from apportion.groups.view.damage import controller_of, drain_of, member_of, ownership_of, static_of
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import OwnershipRecord
from apportion.sim.invariants.groups import TokensAreUnique
from apportion.sim.invariants.store import ALL, Invariant
from apportion.sim.world.nemesis import Mix, Nemesis
from apportion.sim.world.world import World
from apportion.stores import Item
from tests.sim.scenarios.group import GROUP, OTHER, GroupPlay
from tests.sim.scenarios.survival import NobodyFails

HELD: tuple[type[Invariant], ...] = (*ALL, NobodyFails, TokensAreUnique)
OPERATOR = "(operator)"


class DamagePlay(GroupPlay):
    """One seed of the scenario."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        mix = Mix.drawn(world.seed)
        self.nemesis = Nemesis(world, replace(mix, blows=(*mix.blows, "damaged record")), start=self.start)
        self._mending: asyncio.Task[None] | None = None

    def rest(self) -> None:
        """See `GroupPlay`. In addition, an operator mends damaged records."""
        super().rest()
        self._mending = asyncio.create_task(self._mend())

    def unsettled(self, calm: float) -> list[str]:
        """See `GroupPlay`. Nothing is settled while a record is damaged that somebody mends."""
        if damaged := self._damaged():
            return [f"{[item.key for item in damaged]} are damaged"]
        try:
            return super().unsettled(calm)
        except BadSnapshot as error:
            return [error.problem]

    async def _mend(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            for group in (GROUP, OTHER):
                with suppress(ApportionError):
                    await mend(self.world.store(OPERATOR), group, "the store")

    def _damaged(self) -> list[Item]:
        """Return the records that cannot be right, of any group. A target is for the controller to mend."""
        return [item for _, item in sorted(self.world.checker.history.items.items()) if not _is_right(item)]


def _is_right(item: Item) -> bool:
    reads = _READS.get(GroupKeys.parsed(item.key)[1])
    try:
        if reads is not None:
            reads(item)
    except BadSnapshot:
        return False
    return True


_READS: dict[str, Callable[[Item], object]] = {
    "own": lambda item: ownership_of(item, OwnershipRecord()),
    "drain": drain_of,
    "static": static_of,
    "member": member_of,
    "controller": controller_of,
}
