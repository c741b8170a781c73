"""The coordinator: one opened map of one process. It routes keys by its table, and has the driver perform their calls.

Promises: any process coordinates any key; there is no leader of a key. A call that meets a node with a higher table
number reads the table again, and is made once more.
Refuses: a table with a lower number than a node has (`StoreWentBack`): the control store has lost a change.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from secrets import randbits
from typing import TypeVar

from apportion.errors import ApportionError, ClockAstray, InvariantBroken, StaleRoute, StoreWentBack
from apportion.runtime.clock import Clock
from apportion.shards.replicas.calls.call import CallFailed, GetDone, Outcome, PutDone, TableIsStale
from apportion.shards.replicas.calls.get import GetCall
from apportion.shards.replicas.calls.put import PutCall
from apportion.shards.replicas.drive import CallDriver, MapCall
from apportion.shards.replicas.entry import MapEntry, NodeEntry
from apportion.shards.replicas.hybrid_clock import HybridClock
from apportion.shards.replicas.lane import NodeLane
from apportion.shards.replicas.level import Level, checked_level
from apportion.shards.replicas.map_events import MapEvent, ReadBegan, ReadShown, WriteAcknowledged, WriteSent
from apportion.shards.replicas.map_options import MapOptions
from apportion.shards.replicas.nodes.connect import OpenedNode, connect_node
from apportion.shards.replicas.nodes.node_map import NodeMap
from apportion.shards.replicas.records import MapRecord, ReplicaTable
from apportion.shards.replicas.routes import call_route
from apportion.shards.replicas.slot_space import SlotSpace
from apportion.shards.replicas.statistics import MapStatistics
from apportion.shards.replicas.version import EntryVersion

Result = TypeVar("Result")
ReadTable = Callable[[], Coroutine[object, object, ReplicaTable]]

MOST_ASTRAY_SECONDS = 60.0


class Coordinator:
    """An opened map on the I/O thread. `wall_seconds` is the wall clock, read once."""

    table: ReplicaTable

    def __init__(
        self,
        name: str,
        record: MapRecord,
        table: ReplicaTable,
        options: MapOptions,
        *,
        read_table: ReadTable,
        clock: Clock,
        wall_seconds: float,
        tell: Callable[[MapEvent], None],
    ) -> None:
        self.space: SlotSpace = SlotSpace(record.slots)
        self.table = table
        self.options: MapOptions = options
        self._of = NodeMap(name=name, id=record.id, space=self.space)
        self._read_table, self._clock, self._tell = read_table, clock, tell
        self._offset = wall_seconds - clock.elapsed()
        self._versions = HybridClock(randbits(64))
        self._lanes: dict[str, NodeLane] = {}
        self._urls: dict[str, str] = {}
        self._driver = CallDriver(self._lanes, clock, self._take_in)
        self._refresh = asyncio.Lock()
        self._calls = self._puts = self._gets = self._failed = self._again = self._back = self._refreshed = 0
        self._use(table)

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970: the wall clock at opening, and the elapsed time since."""
        return int((self._offset + self._clock.elapsed()) * 1_000)

    @property
    def statistics(self) -> MapStatistics:
        """The counts since the map was opened."""
        return MapStatistics(
            puts=self._puts,
            gets=self._gets,
            failed=self._failed,
            sent_again=self._again,
            written_back=self._back,
            refreshed=self._refreshed,
            silent=tuple(sorted(name for name, lane in self._lanes.items() if lane.reach.is_cut)),
        )

    def troubles(self) -> dict[str, ApportionError]:
        """Return the reason why each node gave no answer to the last request."""
        return {name: lane.trouble for name, lane in sorted(self._lanes.items()) if lane.trouble is not None}

    def checked(self, level: Level | None) -> Level:
        """Return the level of a call: the given one, or that of the map."""
        chosen = self.options.consistency if level is None else level
        datacenters = self.table.datacenters
        return checked_level(chosen, self.options.datacenter, {*datacenters.values()})

    def owners(self, key: bytes) -> tuple[str, ...]:
        """Return the nodes that hold the copies of a key."""
        return self.table.owners(self.space.slot_of(key))

    async def check_clock(self) -> None:
        """Compare the clock of this process with the median of the nodes' clocks; `ClockAstray` if it is far away."""
        asked = [lane.identity(seconds=self.options.timeout_seconds) for lane in self._lanes.values()]
        found = [each.clock_ms for each in await asyncio.gather(*asked) if each is not None]
        clocks = sorted(each for each in found if each is not None)
        if not clocks:
            return
        astray = (self.now_ms - clocks[len(clocks) // 2]) / 1_000
        if abs(astray) > MOST_ASTRAY_SECONDS:
            raise ClockAstray.of_process(astray, MOST_ASTRAY_SECONDS)

    async def put(
        self, items: Mapping[bytes, bytes | None], level: Level, ttl_ms: int | None = None
    ) -> list[EntryVersion | ApportionError]:
        """Write values (None: delete), each key for itself; return a version or an error for each, in order."""
        expires = None if ttl_ms is None else self.now_ms + ttl_ms
        ids, pairs = self._numbers(len(items)), list(items.items())

        def _make(place: int) -> PutCall:
            key, value = pairs[place]
            entry = NodeEntry(key=key, version=self._versions.next(self.now_ms), value=value, expires_ms=expires)
            route = call_route(self.table, self.space.slot_of(key), level, self.options, self._lanes)
            return PutCall(entry, route, self._above)

        def _told(place: int, call: MapCall) -> None:
            assert isinstance(call, PutCall)  # noqa: S101 - made above
            key, value = pairs[place]
            for version in call.unsaid():
                self._tell(WriteSent(call=ids[place], key=key, version=version, value=value))

        found = list[EntryVersion | ApportionError]()
        for place, call in enumerate(await self._made(len(pairs), _make, _told)):
            self._again += max(0, len(call.versions) - 1) if isinstance(call, PutCall) else 0
            version = self._result(call.outcome, pairs[place][0], PutDone)
            if isinstance(version, PutDone):
                self._puts += 1
                self._tell(WriteAcknowledged(call=ids[place], key=pairs[place][0], version=version.version))
                found.append(version.version)
            else:
                found.append(version)
        return found

    async def get(self, keys: Sequence[bytes], level: Level) -> list[MapEntry | ApportionError | None]:
        """Read keys, each for itself; return an entry, None or an error for each, in order."""
        ids = self._numbers(len(keys))
        for call_id, key in zip(ids, keys, strict=True):
            self._tell(ReadBegan(call=call_id, key=key))

        def _make(place: int) -> GetCall:
            route = call_route(self.table, self.space.slot_of(keys[place]), level, self.options, self._lanes)
            return GetCall(keys[place], route, writes_back=self.options.read_repair)

        found = list[MapEntry | ApportionError | None]()
        for place, call in enumerate(await self._made(len(keys), _make, lambda _, __: None)):
            self._back += isinstance(call, GetCall) and call.has_written_back
            shown = self._result(call.outcome, keys[place], GetDone)
            if isinstance(shown, GetDone):
                self._gets += 1
                value = None if shown.entry is None else shown.entry.value
                self._tell(ReadShown(call=ids[place], key=keys[place], version=shown.version, value=value))
                found.append(None if shown.entry is None else shown.entry.shown(self.now_ms))
            else:
                found.append(shown)
        return found

    async def close(self) -> None:
        """End all requests, and close the handles of the nodes."""
        await self._driver.close()
        for lane in self._lanes.values():
            await lane.close()

    async def _made(
        self, count: int, make: Callable[[int], MapCall], told: Callable[[int, MapCall], None]
    ) -> list[MapCall]:
        """Make calls and perform them. Those that meet a higher table number are made once more, by the new table."""
        number = self.table.number
        calls = [make(place) for place in range(count)]
        await self._perform(calls, lambda place: told(place, calls[place]), number)
        stale = {place: call.outcome for place, call in enumerate(calls) if isinstance(call.outcome, TableIsStale)}
        if stale:
            await self._refreshed_to(max(outcome.number for outcome in stale.values()))
            places = list(stale)
            later = [make(place) for place in places]
            await self._perform(later, lambda index: told(places[index], later[index]), self.table.number)
            for place, call in zip(places, later, strict=True):
                calls[place] = call
        return calls

    async def _perform(self, calls: Sequence[MapCall], told: Callable[[int], None], number: int) -> None:
        await self._driver.drive(calls, number=number, seconds=self.options.timeout_seconds, told=told)

    def _result(self, outcome: Outcome | None, key: bytes, kind: type[Result]) -> Result | ApportionError:
        if isinstance(outcome, kind):
            return outcome
        self._failed += 1
        if isinstance(outcome, TableIsStale):
            return StaleRoute(key.decode(), outcome.node, self.table.number)
        if isinstance(outcome, CallFailed):
            return outcome.error
        raise InvariantBroken(f"a call ended with {outcome}")

    async def _refreshed_to(self, number: int) -> None:
        """Read the table again, unless another call has read one with this number meanwhile."""
        async with self._refresh:
            if self.table.number >= number:
                return
            table = await self._read_table()
            if table.number < number:
                raise StoreWentBack("the control store", f"table {number}", f"its table is {table.number}")
            self._refreshed += 1
            self._use(table)

    def _use(self, table: ReplicaTable) -> None:
        """Route by a table from now on. The lane of a node with another URL is replaced."""
        for name, url in table.urls.items():
            if self._urls.get(name) != url:
                node: OpenedNode = connect_node(url, self._of)
                self._lanes[name], self._urls[name] = NodeLane(name, node, self._clock), url
        self.table = table

    def _numbers(self, count: int) -> range:
        self._calls += count
        return range(self._calls - count, self._calls)

    def _take_in(self, version: EntryVersion) -> bool:
        return self._versions.take_in(version, self.now_ms)

    def _above(self, version: EntryVersion) -> EntryVersion | None:
        return self._versions.next(self.now_ms) if self._take_in(version) else None
