"""etcd's watch: every change of a range of keys, without a gap even if its stream fails.

Promises: each revision with changes in the range becomes one whole `StoreChange`, exactly once. The position advances
after all changes of a revision, or when the server says that it has sent everything up to a revision. After a silence
of a quarter of the shortest lease, a read checks the stream. The stream is opened anew if the read shows newer
revisions, or if requests now go to another server. A watch without the right to read logs this once, and waits for
that right.
Refuses: to fill a gap that the server itself makes. A server without etcd-io/etcd#18274 (of 2024) silently leaves out
the deletes of the revision at which it was compacted. So a stream that must catch up begins at the last revision that
the watch has seen. If that revision is compacted, the server ends the stream. This does not help a stream whose
consumer lags behind while the server is compacted. A stream with nothing to catch up begins at the next revision.
The server sends new changes at once, and old changes in rounds, 100 ms apart.
"""

import asyncio
import logging
from collections import deque
from operator import attrgetter

from apportion.errors import Compacted, StoreClosed, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.runtime.clock import Clock
from apportion.stores.api import Event, StoreChange
from apportion.stores.etcd.gateway import Gateway, Stream, pause_seconds
from apportion.stores.etcd.messages import Message, StreamMessage, event_of, watch_of
from apportion.stores.etcd.origin import GRANTS, Origin
from apportion.stores.etcd.wire import EtcdNoReply, Unreached
from apportion.stores.requests import Space

# A prefix may be quiet while other prefixes change. While new streams bring nothing, the wait for the next one grows.
# It grows up to a time to live, or longer in a process with very many streams.
_LONGEST_PER_PATIENCE = 4.0
_OPENED_PER_SECOND = 20.0
_log = logging.getLogger("apportion.stores")


class Feed:
    """The changes of one range after a revision."""

    def __init__(
        self, gateway: Gateway, space: Space, prefix: str, *, after: int, origin: Origin, clock: Clock
    ) -> None:
        self._gateway, self._space, self._clock = gateway, space, clock
        self._span = space.span(prefix)
        self._after = after
        self._origin = origin
        self._life = origin.life  # a scan may accept another life, but this watch stays in its first one
        self._stream: Stream | None = None
        self._opened_at = 0.0
        # `_caught_up_at` is the revision of a stream that seemed up to date when it was opened. It becomes None once
        # the server has shown whether that was true. Until then, `_held` keeps the messages of the stream.
        self._caught_up_at: int | None = None
        self._held: list[StreamMessage] = []
        self._wire = gateway.wire
        self._patience_seconds = self._wire.patience_seconds
        self._heard_at = 0.0
        self._failed = 0
        self._is_denied = False
        self._part: list[Event] = []
        self._part_revision = 0
        self._ready: deque[StoreChange] = deque()

    async def next(self) -> StoreChange | None:
        """Wait for the next change and return it; return None once the handle is closed."""
        while not self._ready:
            if self._gateway.closed:
                return None
            try:
                await self._advance()
            except (EtcdNoReply, Unreached, StoreUnavailable):
                await self._pause()
            except StoreDenied as error:
                self._deny(error)
                await self._pause()
            except StoreClosed:
                if not self._gateway.closed:
                    raise
        return self._ready.popleft()

    async def aclose(self) -> None:
        """Close the stream, if one is open; forget the events of an unfinished revision."""
        self._part, self._held = [], []
        if self._stream is not None:
            stream, self._stream = self._stream, None
            await stream.close()

    async def _pause(self) -> None:
        await self.aclose()
        await asyncio.sleep(pause_seconds(self._failed))
        self._failed += 1

    async def _advance(self) -> None:
        self._gateway.alive()
        if self._stream is None:
            self._stream = await self._opened()
        self._heard_at = asyncio.get_running_loop().time()
        message = await self._stream.next(timeout_seconds=self._wire.patience_seconds)
        if message is None:
            await self._check(self._stream)
        else:
            await self._take(message, self._stream)

    async def _opened(self) -> Stream:
        revision = await self._origin.look(self._life)
        if self._after > revision:
            raise StoreWentBack(self._gateway.name, f"revision {self._after}", f"its revision is {revision}")
        self._opened_at = self._clock.elapsed()
        self._caught_up_at = revision if revision == self._after else None
        since = max(1, self._after) if self._caught_up_at is None else revision + 1
        return await self._gateway.open("/v3/watch", watch_of(*self._span, since=since, life_since=revision + 1))

    async def _check(self, stream: Stream) -> None:
        """After a silence, look at the store.

        Close the stream if it may lack changes, or if we no longer use its server.
        """
        revision = await self._origin.look_since(self._heard_at, self._life)
        waited = self._clock.elapsed() - self._opened_at
        behind = revision > self._after and waited >= self._patience_seconds
        if behind:
            longest = max(
                _LONGEST_PER_PATIENCE * self._wire.patience_seconds, len(self._wire.streams) / _OPENED_PER_SECOND
            )
            self._patience_seconds = min(2 * self._patience_seconds, longest)
        if behind or stream.endpoint != self._wire.current:
            await self.aclose()

    async def _take(self, message: Message, stream: Stream) -> None:
        if "result" not in message:
            self._wire.leave(stream.endpoint)
            raise EtcdNoReply(message.get("error", {}).get("message", "a message that is not from etcd"))
        result = message["result"]
        self._origin.same_cluster(result)
        if result.get("canceled"):
            self._ended(result)
        self._failed, self._is_denied = 0, False
        if result.get("watch_id"):  # the watch of the incarnation, number 1; JSON leaves out a number 0
            if result.get("events"):
                await self._origin.look(self._life)
            elif self._caught_up_at is not None:
                await self._began(int(result["header"]["revision"]))
        elif self._caught_up_at is not None:
            self._held.append(result)
        else:
            self._collect(result)

    async def _began(self, revision: int) -> None:
        """Close the stream if it may have missed changes.

        The second watch of the stream began at `revision`. The watch of the range began no later.
        """
        caught_up_at, self._caught_up_at = self._caught_up_at, None
        if caught_up_at is None or revision > caught_up_at:
            await self.aclose()
        held, self._held = self._held, []
        for result in held:
            self._collect(result)

    def _ended(self, result: StreamMessage) -> None:
        if "compact_revision" in result and not result.get("watch_id"):
            raise Compacted(self._after, int(result["compact_revision"]))
        reason = result.get("cancel_reason", "the server ended the watch")
        if "permission denied" in reason:  # also sent for an expired token
            self._gateway.expire_token()
            if self._failed:
                raise StoreDenied(self._gateway.name, reason, GRANTS)
        raise EtcdNoReply(reason)

    def _deny(self, error: StoreDenied) -> None:
        """Log once that the watch lacks its right. The watch goes on once an operator gives the right back."""
        if not self._is_denied:
            _log.warning("A watch waits, and asks again: %s", error)
        self._is_denied = True

    def _collect(self, result: StreamMessage) -> None:
        events = result.get("events", [])
        for event in events:
            revision = int(event["kv"]["mod_revision"])
            if revision > self._part_revision:
                self._finish()
            if revision > self._after:
                self._part_revision = revision
                told = event_of(event, self._space)
                self._part += [] if told is None else [told]
        if result.get("fragment"):
            return  # the rest of this revision is still to come
        self._finish()
        if not events and not result.get("created"):
            self._after = max(self._after, int(result["header"]["revision"]))

    def _finish(self) -> None:
        if self._part:
            self._ready.append(StoreChange(revision=self._part_revision, events=tuple(sorted(self._part, key=_KEY))))
            self._after, self._part = self._part_revision, []
            self._patience_seconds = self._wire.patience_seconds


_KEY = attrgetter("key")  # text sorts in the same order as its UTF-8
