"""The way of one process to the database of a shard: a request may be late, and lost before or after its effect.

A request that was sent is carried out as one transaction, also when its caller is gone. A mover's transaction locks the
row of its token until it ends. So an earlier transaction of the move is done before a later one begins, or it is never
carried out.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from apportion.errors import Fenced, StoreUnavailable
from apportion.model.epoch import FencingToken
from apportion.shards.slot_rows import SlotRow
from apportion.sim.facts import Fact
from apportion.sim.shards.database import ShardDatabase
from apportion.sim.world.troubles import Troubles
from apportion.sim.world.wire import FaultyWire
from apportion.sim.world.world import World

Result = TypeVar("Result")


class ShardPlace:
    """A shard in a world: its database, its troubles, and the requests of movers to it in the order they were sent."""

    def __init__(self, world: World, name: str, slots: Mapping[int, SlotRow], tell: Callable[[Fact], None]) -> None:
        self.world = world
        self.name = name
        self.place: str = f"shard {name}"
        place, network, trace = self.place, world.network, world.trace
        self.troubles: Troubles = Troubles(world.draws(place), network, trace, record=tell, place=place)
        network.places.add(place)
        network.databases.add(place)
        self.database: ShardDatabase = ShardDatabase(name, slots, now=lambda: world.now, tell=tell)
        self._cover = trace.cover
        self._sent = 0
        self._last: dict[str, tuple[FencingToken, int]] = {}

    def number(self) -> int:
        """Return the number of a request that is sent now."""
        self._sent += 1
        return self._sent

    def show(self, move: str, token: FencingToken, number: int) -> None:
        """Begin a mover's transaction; `StoreUnavailable` if a later one of the move has ended before it."""
        last = self._last.get(move)
        if last is not None and token <= last[0] and number < last[1]:
            self._cover("an act of a mover arrives after one that was sent later")
            raise StoreUnavailable(f"shard {self.name}", "the connection has ended")
        try:
            self.database.show(move, token)
        except Fenced:
            self._cover("an act of an older mover is refused")
            raise
        self._last[move] = (token, number)


class ShardWire:
    """The connection of one process to a shard."""

    def __init__(self, process: str, place: ShardPlace) -> None:
        world = place.world
        self.place = place
        self._wire = FaultyWire(process, place.troubles, now=world.now)

    async def read(self, what: str, perform: Callable[[ShardDatabase], Result]) -> Result:
        """Read in one transaction; `StoreUnavailable` if no reply comes."""
        database = self.place.database

        async def _perform() -> Result:
            return perform(database)

        return await self._wire.certain(what, _perform, changes=False)

    async def write(self, what: str, perform: Callable[[ShardDatabase], Result]) -> Result:
        """Write in one transaction; `NoReply` if its fate is unknown."""
        database = self.place.database

        async def _perform() -> Result:
            return perform(database)

        return await self._wire.ask(what, _perform)

    async def guarded(
        self, what: str, move: str, token: FencingToken, perform: Callable[[ShardDatabase], Result]
    ) -> Result:
        """Write in one transaction of a mover. `Fenced` has written nothing; `StoreUnavailable` if no reply comes."""
        place = self.place
        number, database = place.number(), place.database

        async def _perform() -> Result:
            place.show(move, token, number)
            return perform(database)

        return await self._wire.certain(what, _perform, changes=True)
