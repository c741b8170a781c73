"""Gateway: the requests and streams of one handle to etcd's JSON gateway, each bounded in time.

Promises: every request requires a server that has a leader. After a failure, the next server is asked. An expired
token is replaced. `ask` repeats its request until a server answers. `tell` repeats its request only after the server
refused an expired token. `tell` opens no connection. So a commit goes only to a server that `origin` has checked.
Refuses: to claim that a request without an answer had no effect (`EtcdNoReply`).
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping

import httpx

from apportion.errors import StoreClosed, StoreDenied, StoreUnavailable
from apportion.stores.etcd.messages import Message, Reply, encoded, json_of
from apportion.stores.etcd.wire import (
    BUDGET_SECONDS,
    EXHAUSTED,
    LOST,
    Distrusted,
    EtcdNoReply,
    Lane,
    Rejected,
    Unreached,
    Wire,
    said,
)
from apportion.stores.url import StoreUrl

_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 0.5
_TOKEN_IS_OLD = ("invalid auth token", "revision in header is old", "user name is empty")


class Gateway:
    """The requests and streams of one handle, over the wire to a cluster."""

    closed: bool

    def __init__(self, url: StoreUrl) -> None:
        self.name: str = str(url)
        self.wire: Wire = Wire.taken(url)
        self.closed = False
        self.streams: set[Stream] = set()

    @property
    def connects(self) -> int:
        """The number of times that the connection of commits and scans was opened."""
        return self.wire.commits.connects

    async def ask(self, path: str, body: Mapping[str, object], *, is_first: bool = False) -> Reply:
        """Send a request that may be repeated, to one server after another; `StoreUnavailable` if none answers.

        `is_first` takes the connection for renewals, where no commit and no scan delays the request.
        """
        return json_of(await self.ask_lines(path, body, self.wire.renewals if is_first else self.wire.commits))

    async def ask_lines(self, path: str, body: Mapping[str, object] | bytes, lane: Lane) -> bytes:
        """As `ask`, in a given lane; return the bytes of the answer."""
        self.alive()
        servers = len(self.wire.endpoints)
        failed = 0
        try:
            async with asyncio.timeout(BUDGET_SECONDS):
                while True:
                    try:
                        return await self._authenticated(path, body, lane)
                    except (Unreached, EtcdNoReply) as error:
                        failed, problem = failed + 1, error
                    if failed >= servers and isinstance(problem, Distrusted):
                        raise StoreDenied(self.name, str(problem), "Check ca, cert and key of the URL.") from problem
                    if failed >= servers and isinstance(problem, Unreached):
                        raise StoreUnavailable(self.name, str(problem)) from problem
                    await asyncio.sleep(0 if failed == 1 else pause_seconds(failed // servers))
        except TimeoutError as error:
            raise StoreUnavailable(self.name, f"no answer within {BUDGET_SECONDS:g} s") from error

    async def tell(self, path: str, body: Mapping[str, object], *, on: int) -> Reply:
        """Send a request on the connection with the number `on`, and repeat it only after a refused token.

        After `Unreached` the request had no effect. After `EtcdNoReply` it may have had one.
        """
        return json_of(await self._authenticated(path, body, self.wire.commits, on=on))

    async def open(self, path: str, body: bytes) -> "Stream":
        """Open a stream at the current server."""
        await self._identified(self.wire.commits)
        at = self.wire.current
        response = await self.wire.stream(path, body, at)
        if response.status_code == 200:
            return Stream(response, at, self)
        try:
            async with asyncio.timeout(self.wire.budget_seconds()):
                refusal = self.wire.refusal(response.status_code, await response.aread(), at)
        except LOST as error:
            raise EtcdNoReply(said(error)) from error
        self.expire_token()
        raise EtcdNoReply(str(refusal)) from refusal

    def expire_token(self) -> None:
        """Forget the token, so that the next request authenticates first."""
        self.wire.token = ""

    async def visit(self, path: str, body: Mapping[str, object] | None, at: int) -> Reply:
        """Send a request once, to the server with the number `at`."""
        await self._identified(self.wire.commits)
        self.alive()
        return json_of(await self.wire.commits.send(path, body if body is None else encoded(body), at))

    def alive(self) -> None:
        """Raise `StoreClosed` if the handle was closed, or if this process is a forked child."""
        if self.wire.forked():
            raise StoreClosed(self.name, "it belongs to the parent of this forked process")
        if self.closed:
            raise StoreClosed(self.name)

    async def aclose(self) -> None:
        """Close the streams of this handle; the last handle also closes the wire. A forked child closes nothing."""
        if self.wire.forked() or self.closed:
            return
        self.closed = True
        for stream in tuple(self.streams):
            await stream.close()
        await self.wire.let_go()

    async def _authenticated(
        self, path: str, body: Mapping[str, object] | bytes, lane: Lane, *, on: int | None = None
    ) -> bytes:
        content = body if isinstance(body, bytes) else encoded(body)
        await self._identified(lane)
        try:
            return await self._sent(path, content, lane, on)
        except Rejected as error:
            if not self.wire.user or not any(sign in str(error) for sign in _TOKEN_IS_OLD):
                raise
            self.expire_token()
        await self._identified(lane)
        return await self._sent(path, content, lane, on)

    async def _sent(self, path: str, content: bytes, lane: Lane, on: int | None) -> bytes:
        self.alive()
        try:
            return await lane.send(path, content, self.wire.current, on=on)
        except EtcdNoReply:
            self.alive()
            raise

    async def _identified(self, lane: Lane) -> None:
        self.alive()
        if self.wire.user and not self.wire.token:
            words = encoded({"name": self.wire.user, "password": self.wire.password})
            try:
                answer = await lane.send("/v3/auth/authenticate", words, self.wire.current)
            except Rejected as error:
                if error.code == EXHAUSTED:
                    raise StoreUnavailable(self.name, str(error)) from error
                hint = "Check user and password of the URL: etcdctl user get USER"
                raise StoreDenied(self.name, f"it refuses the user of the URL: {error}", hint) from error
            except EtcdNoReply as error:
                raise Unreached(str(error)) from error  # the request itself was not sent
            self.wire.token = json_of(answer).get("token", "")


class Stream:
    """The lines of one open stream. A reader can tell a pause between lines from the end of the stream."""

    def __init__(self, response: httpx.Response, endpoint: int, gateway: Gateway) -> None:
        self.endpoint = endpoint
        self._response = response
        self._chunks = response.aiter_raw()
        self._buffer = bytearray()
        self._pending: asyncio.Task[bytes] | None = None
        self._gateway = gateway
        gateway.streams.add(self)
        gateway.wire.streams.add(self.doubt)

    async def next(self, *, timeout_seconds: float) -> Message | None:
        """Return the next message, or None if no message came in time; `EtcdNoReply` if the stream has ended."""
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if not await self._read(timeout_seconds):
                return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return message_of(line)

    async def _read(self, timeout_seconds: float) -> bool:
        if self._pending is None:
            self._pending = asyncio.ensure_future(_chunk(self._chunks))
        await asyncio.wait({self._pending}, timeout=timeout_seconds)
        if not self._pending.done():
            return False
        pending, self._pending = self._pending, None
        if pending.cancelled():
            raise EtcdNoReply("the stream was closed")
        self._buffer += pending.result()
        return True

    def doubt(self) -> None:
        """End a wait for the next message with `EtcdNoReply`. The reader then opens the stream anew."""
        if self._pending is not None:
            self._pending.cancel()

    async def close(self) -> None:
        """Close the stream and its connection. A forked child closes nothing."""
        if self._gateway.wire.forked():
            return
        if self in self._gateway.streams:
            self._gateway.streams.discard(self)
            self._gateway.wire.streams.discard(self.doubt)
        if self._pending is not None:
            self._pending.cancel()
            await asyncio.gather(self._pending, return_exceptions=True)
        await self._response.aclose()


def pause_seconds(failed: int) -> float:
    """Return the wait after this number of failures in a row. It grows up to a bound, and has jitter."""
    return min(_LONGEST_PAUSE_SECONDS, _PAUSE_SECONDS * 2.0 ** min(failed, 10)) * random.uniform(0.5, 1.0)  # noqa: S311


def message_of(line: bytes) -> Message:
    """Return a line of a stream as data; `EtcdNoReply` for a line that is not from etcd."""
    try:
        message: Message = json.loads(line)
    except ValueError as error:
        raise EtcdNoReply("a line of the answer is not JSON") from error
    if not isinstance(message, dict):
        raise EtcdNoReply("a line of the answer is not a JSON object")
    return message


async def _chunk(chunks: AsyncIterator[bytes]) -> bytes:
    try:
        return await anext(chunks)
    except StopAsyncIteration as error:
        raise EtcdNoReply("the stream has ended") from error
    except LOST as error:
        raise EtcdNoReply(said(error)) from error
