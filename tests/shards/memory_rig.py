"""The rig of the suites of shards for the shards in memory of a simulated world, on a network without delays."""

from apportion.errors import StaleRoute
from apportion.shards.slot_rows import SlotRow
from apportion.sim.conformance.shards.rig import OWNED, ShardPair
from apportion.sim.shard_facts import RowPlace
from apportion.sim.shards.memory import MemoryChannel, MemoryShard
from apportion.sim.shards.wire import ShardPlace
from apportion.sim.world.network import Weather
from apportion.sim.world.world import World


class MemoryPair(ShardPair):
    """Two databases in memory. A row holds the number of a write, which stands for a text."""

    def __init__(self):
        self._world = World(0, invariants=())
        self._world.network.weather = Weather(least_seconds=0, most_seconds=0)
        self._texts = {}
        self._places = {
            name: ShardPlace(self._world, name, dict.fromkeys(slots, SlotRow(state="owner")), lambda _: None)
            for name, slots in OWNED.items()
        }

    async def shard(self, shard_id):
        return MemoryShard("mover", self._places[shard_id])

    async def channel(self, group):
        return MemoryChannel("mover", group, self._places[group.source], self._places[group.target])

    async def write(self, shard_id, slot, rows):
        try:
            self._places[shard_id].database.write(None, self._changes(slot, rows))
        except StaleRoute:
            return False
        return True

    async def plant(self, shard_id, slot, rows):
        self._places[shard_id].database.put(self._changes(slot, rows))

    async def read(self, shard_id, slot):
        rows = self._places[shard_id].database.read((slot,))
        texts = {number: text for text, number in self._texts.items()}
        return {int(place.key): texts[row[0]] for place, row in rows.items()}

    async def close(self):
        self._world.close()

    def _changes(self, slot, rows):
        return {
            RowPlace(slot, "place", str(key)): None if text is None else (self._number(text), slot)
            for key, text in rows.items()
        }

    def _number(self, text):
        return self._texts.setdefault(text, len(self._texts) + 1)


class MemoryRig:
    name = "memory"

    async def pair(self):
        return MemoryPair()
