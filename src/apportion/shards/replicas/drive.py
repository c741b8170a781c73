"""The driver of calls: performs the requests of many machines, and gives each answer to the machine that waits for it.

Requests to one node travel together: one message for all keys of a batch. A message that is under way when its calls
have ended goes on to its own time-out: so a put reaches the slow nodes too, after its caller has gone on.

Promises: `drive` returns when every call has an outcome, at the latest at the deadline. The machines decide alone; the
driver decides nothing.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from apportion.runtime.clock import Clock
from apportion.shards.replicas.calls.call import (
    EntryAnswered,
    Input,
    NodesAreSlow,
    ReadAnswered,
    ReadKey,
    Request,
    SendEntry,
    TimeIsUp,
)
from apportion.shards.replicas.calls.get import GetCall
from apportion.shards.replicas.calls.put import PutCall
from apportion.shards.replicas.lane import NodeLane
from apportion.shards.replicas.nodes.api import EntryAnswer, EntrySuperseded, KeyState, ReadAnswer, SlotSealed
from apportion.shards.replicas.version import EntryVersion

SLOW_SECONDS = 0.02
"""After this time without enough answers, a get asks one more node."""
_SHORTEST_SECONDS = 0.001

MapCall = PutCall | GetCall
Arrived = Sequence[tuple[int, Input]]


class CallDriver:
    """Performs requests over the lanes of a map. `heard` takes each version that a node has answered."""

    def __init__(self, lanes: Mapping[str, NodeLane], clock: Clock, heard: Callable[[EntryVersion], object]) -> None:
        self._lanes, self._clock, self._heard = lanes, clock, heard
        self._messages: set[asyncio.Task[None]] = set()

    async def drive(
        self, calls: Sequence[MapCall], *, number: int, seconds: float, told: Callable[[int], None]
    ) -> None:
        """Perform calls until each has an outcome. `told` is called with the place of a call before it sends."""
        now = self._clock.elapsed()
        run = _Run(number=number, deadline=now + seconds, told=told)
        slow_at = now + SLOW_SECONDS
        self._send(run, [(place, request) for place, call in enumerate(calls) for request in call.begin()])
        while open_calls := [place for place, call in enumerate(calls) if call.outcome is None]:
            events = await self._next(run, min(slow_at, run.deadline))
            now = self._clock.elapsed()
            if now >= run.deadline:
                events = [*events, *((place, TimeIsUp()) for place in open_calls)]
            elif now >= slow_at:
                slow_at = now + SLOW_SECONDS
                events = [*events, *((place, NodesAreSlow()) for place in open_calls)]
            self._send(run, [(place, request) for place, event in events for request in calls[place].step(event)])

    async def close(self) -> None:
        """End the messages that are under way."""
        messages = list(self._messages)
        for message in messages:
            message.cancel()
        await asyncio.gather(*messages, return_exceptions=True)

    async def _next(self, run: "_Run", until: float) -> Arrived:
        """Return the inputs of the next message, () if none comes before a time."""
        try:
            async with asyncio.timeout(max(0.0, until - self._clock.elapsed())):
                return await run.arrived.get()
        except TimeoutError:
            return ()

    def _send(self, run: "_Run", requests: Sequence[tuple[int, Request]]) -> None:
        """Begin one message for all requests of one kind to one node."""
        for place in sorted({place for place, _ in requests}):
            run.told(place)
        entries: dict[tuple[str, bool], list[tuple[int, SendEntry]]] = defaultdict(list)
        keys: dict[str, list[tuple[int, ReadKey]]] = defaultdict(list)
        for place, request in requests:
            if isinstance(request, SendEntry):
                entries[request.node, request.copy].append((place, request))
            else:
                keys[request.node].append((place, request))
        for (node, copy), listed in entries.items():
            self._begin(self._sent(run, node, listed, copy=copy))
        for node, asked in keys.items():
            self._begin(self._read(run, node, asked))

    def _begin(self, message: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(message)
        self._messages.add(task)
        task.add_done_callback(self._messages.discard)

    async def _sent(self, run: "_Run", node: str, requests: Sequence[tuple[int, SendEntry]], *, copy: bool) -> None:
        entries = [request.entry for _, request in requests]
        seconds = self._left(run)
        found = await self._lanes[node].apply(entries, number=run.number, copy=copy, seconds=seconds)
        answers = (None,) * len(entries) if found is None else found
        self._take_in(answers)
        pairs = zip(requests, answers, strict=True)
        run.arrived.put_nowait(
            [(place, EntryAnswered(node, sent.entry.version, answer)) for (place, sent), answer in pairs]
        )

    async def _read(self, run: "_Run", node: str, requests: Sequence[tuple[int, ReadKey]]) -> None:
        keys = [request.key for _, request in requests]
        found = await self._lanes[node].read(keys, number=run.number, seconds=self._left(run))
        answers = (None,) * len(keys) if found is None else found
        self._take_in(answers)
        pairs = zip(requests, answers, strict=True)
        run.arrived.put_nowait([(place, ReadAnswered(node, answer)) for (place, _), answer in pairs])

    def _left(self, run: "_Run") -> float:
        return max(_SHORTEST_SECONDS, run.deadline - self._clock.elapsed())

    def _take_in(self, answers: Iterable[EntryAnswer | ReadAnswer | None]) -> None:
        """Let the clock hear the version of each answer, before any machine does."""
        for answer in answers:
            if isinstance(answer, (EntrySuperseded, SlotSealed, KeyState)) and answer.version is not None:
                self._heard(answer.version)


@dataclass(slots=True)
class _Run:
    """One call of `drive`: its table number, its deadline, and the answers that have arrived."""

    number: int
    deadline: float
    told: Callable[[int], None]
    arrived: "asyncio.Queue[Arrived]" = field(default_factory=asyncio.Queue)
