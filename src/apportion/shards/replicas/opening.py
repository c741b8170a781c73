"""Opening a map: its record and its table from the control store, and the closing of all that was opened."""

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from apportion.errors import BadSnapshot, InvalidInput
from apportion.runtime.endings import or_undo
from apportion.runtime.simulated import clock_here
from apportion.shards.records import read_record
from apportion.shards.replicas.coordinator import Coordinator
from apportion.shards.replicas.map_events import MapEvent
from apportion.shards.replicas.map_options import MapOptions
from apportion.shards.replicas.nodes.connect import NODES_HERE
from apportion.shards.replicas.records import MapKeys, MapRecord, ReplicaTable
from apportion.stores.api import CoordinationStore
from apportion.stores.catalog import connect


@dataclass(slots=True)
class OpenedMap:
    """An opened map on the I/O thread: its coordinator, and its handle of the control store."""

    coordinator: Coordinator
    store: CoordinationStore


async def opened_map(url: str, keys: MapKeys, options: MapOptions) -> OpenedMap:
    """Open a map. Nodes that are down do not matter; the clock is compared with those that answer."""
    async with AsyncExitStack() as undo:
        store = await connect(url, needs=["fencing"])
        await undo.enter_async_context(or_undo(store.close))
        record = await _record(store, keys)
        coordinator = Coordinator(
            keys.name,
            record,
            await _table(store, keys, record.slots),
            options,
            read_table=lambda: _table(store, keys, record.slots),
            clock=clock_here(),
            wall_seconds=time.time(),
            tell=_listener(),
        )
        await undo.enter_async_context(or_undo(coordinator.close))
        coordinator.checked(None)
        await coordinator.check_clock()
        return OpenedMap(coordinator, store)


async def closed_map(opened: OpenedMap) -> None:
    """Close the nodes' handles and the control store's."""
    try:
        await opened.coordinator.close()
    finally:
        await opened.store.close()


async def _record(store: CoordinationStore, keys: MapKeys) -> MapRecord:
    return read_record(keys.map, await _value(store, keys.map, keys.name), MapRecord.decode)


async def _table(store: CoordinationStore, keys: MapKeys, slots: int) -> ReplicaTable:
    table = read_record(keys.table, await _value(store, keys.table, keys.name), ReplicaTable.decode)
    if len(table.rows) != slots:
        hint = "Restore the control store from a copy."
        raise BadSnapshot(f"record {keys.table}", f"{len(table.rows)} lists", f"a list for each of {slots} slots", hint)
    return table


async def _value(store: CoordinationStore, key: str, name: str) -> bytes:
    items = [item for item in (await store.scan(key)).items if item.key == key]
    if not items:
        hint = "Check the name and the URL, or make the map with replicas.create."
        raise InvalidInput("map", name, "the name of a map in this control store", hint)
    return items[0].value


def _listener() -> Callable[[MapEvent], None]:
    here = NODES_HERE.get()
    return (lambda _: None) if here is None else here.tell
