"""Server state: the timeline and the slot rows of a shard, from a connection that accepts any timeline."""

from apportion.errors import StoreUnavailable
from apportion.shards.postgres.server import ServerPlace, ShardServer, rows
from apportion.shards.slot_rows import SlotRow, slot_row
from apportion.shards.timeline.timeline import Timeline

_SLOTS = "SELECT slot, state, life, number FROM apportion.slot"


async def server_state(place: ServerPlace) -> tuple[Timeline, dict[int, SlotRow]]:
    """Return the timeline and the slot rows of a shard. `StoreUnavailable` if its server does not answer."""
    server = ShardServer(place)
    try:
        found = await server.read(lambda connection: rows(connection, _SLOTS))
    finally:
        await server.close()
    if server.timeline is None:
        raise StoreUnavailable(f"shard {place.shard}", "its server told no timeline")
    return server.timeline, {slot: slot_row(slot, state, life, number) for slot, state, life, number in found}
