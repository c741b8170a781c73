"""Known shards: the shards of a set as this process knows them, and a look for shards that came or left."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from apportion.shards.router import FollowedSet, shards_in
from apportion.shards.slots import SlotTable


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownShards:
    """The shards of a followed set. `wait` waits for the control store, and blocks its caller."""

    followed: FollowedSet
    wait: Callable[[Coroutine[object, object, Any]], Any]

    def ids(self, table: SlotTable) -> list[str]:
        """Return all known shards of the set. A shard without slots may get them from a move under way."""
        return sorted({*self.followed.shards, *filter(None, table.owners.values())})

    def has_changed(self) -> bool:
        """Whether shards have come to the set or have left it since the last look. A new one may own a fenced slot."""
        keys, store, known = self.followed.keys, self.followed.store, self.followed.shards
        items = {item.key: item.value for item in self.wait(store.scan(keys.prefix)).items}
        found, damaged = shards_in(keys, items)
        gone = known.keys() - found.keys() - damaged.keys()
        for shard in gone:
            del known[shard]
        is_new = not found.keys() <= known.keys()
        known.update(found)
        return is_new or bool(gone)
