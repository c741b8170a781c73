"""etcd's JSON gateway: requests to one of several servers and open streams, each bounded in time.

Promises: every request asks for a server that has a leader; a server that fails is left for the next one; an expired
token is renewed. `ask` repeats what may be repeated. `tell` sends at most once, and never over a connection that was
opened for it: so who counts `connects` knows that the server is the one it looked at.
Refuses: to say that something did not happen when it was sent and no answer came (`NoReply`).
"""

import asyncio
import json
import os
import random
import ssl
from collections.abc import AsyncIterator, Mapping

import httpx

from apportion.errors import StoreClosed, StoreDenied, StoreUnavailable
from apportion.stores.etcd.address import endpoints, tls
from apportion.stores.etcd.messages import Message, Reply, encoded
from apportion.stores.url import StoreUrl

BUDGET_SECONDS = 5.0
_SHORTEST_ATTEMPT_SECONDS = 1.0
_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 0.5
_UNKNOWN = 2  # these are codes of gRPC
# Not done: invalid, not found, denied, exhausted, not as it must be, out of range, no such thing, not authenticated.
_EXHAUSTED = 8
_NOT_DONE = frozenset({3, 5, 7, _EXHAUSTED, 9, 11, 12, 16})
_NO_LEADER = "etcdserver: no leader"  # said before a request is taken up
_TOKEN_IS_OLD = ("invalid auth token", "revision in header is old", "user name is empty")
# UnicodeError: a host that can be no name. OSError: a time-out, and what httpx passes on of TLS.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, UnicodeError)
_LOST = (httpx.HTTPError, OSError)


class Unreached(Exception):
    """It was not sent, or certainly not taken up."""


class Distrusted(Unreached):
    """One of the two does not trust the other's certificate."""


class NoReply(Exception):
    """It was sent, and no answer tells what became of it."""


class Rejected(Exception):
    """The server answered that it did not do it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Gateway:
    """The servers of one cluster, one of which is asked until it fails."""

    def __init__(self, url: StoreUrl) -> None:
        self.name = str(url)
        self.endpoints = endpoints(url)
        self.current = random.randrange(len(self.endpoints))  # noqa: S311 - so that not all ask the same server
        self.connects = 0
        self.closed = False
        self._user, self._password, self._token = url.user, url.password, ""
        self._process = os.getpid()
        self.streams: set[Stream] = set()
        # A watch holds its connection for good, so there is no bound on them; HTTP proxies are for the web.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=16, keepalive_expiry=None)
        self._client = httpx.AsyncClient(verify=tls(url), trust_env=False, limits=limits, timeout=BUDGET_SECONDS)

    async def ask(self, path: str, body: Mapping[str, object] | bytes) -> Reply:
        """Ask what may be asked twice, of one server after another; `StoreUnavailable` when none answers."""
        return json_of(await self.ask_lines(path, body))

    async def ask_lines(self, path: str, body: Mapping[str, object] | bytes) -> bytes:
        """As `ask`, but return what came as it came."""
        self.alive()
        attempt = max(_SHORTEST_ATTEMPT_SECONDS, BUDGET_SECONDS / len(self.endpoints))
        failed = 0
        try:
            async with asyncio.timeout(BUDGET_SECONDS):
                while True:
                    try:
                        return await self._authenticated(path, body, attempt)
                    except (Unreached, NoReply) as error:
                        failed, problem = failed + 1, error
                    if failed >= len(self.endpoints) and isinstance(problem, Distrusted):
                        raise StoreDenied(self.name, str(problem), "Look at ca, cert and key of the URL.") from problem
                    if failed >= len(self.endpoints) and isinstance(problem, Unreached):
                        raise StoreUnavailable(self.name, str(problem)) from problem
                    await asyncio.sleep(pause_seconds(failed // len(self.endpoints)))
        except TimeoutError as error:
            raise StoreUnavailable(self.name, f"no answer within {BUDGET_SECONDS:g} s") from error

    async def tell(self, path: str, body: Mapping[str, object]) -> Reply:
        """Send at most once. `Unreached` when no connection was open; `NoReply` when it may have happened."""
        return json_of(await self._authenticated(path, body, BUDGET_SECONDS, may_connect=False))

    async def open(self, path: str, body: bytes) -> "Stream":
        """Open a stream at the current server."""
        await self._identified()
        at = self.current
        extensions = {"trace": self._traced(True), "timeout": {"connect": BUDGET_SECONDS, "write": BUDGET_SECONDS}}
        request = self._request(path, body, extensions)
        try:
            async with asyncio.timeout(BUDGET_SECONDS):
                response = await self._client.send(request, stream=True)
                content = b"" if response.status_code == 200 else await response.aread()
        except _LOST as error:
            self.leave(at)
            raise NoReply(_said(error)) from error
        if response.status_code == 200:
            return Stream(response, at, self)
        refusal = self._refusal(response.status_code, content, at)
        self.expire_token()
        raise NoReply(str(refusal)) from refusal

    def expire_token(self) -> None:
        """Authenticate anew before the next request."""
        self._token = ""

    async def visit(self, path: str, body: Mapping[str, object] | None, at: int) -> Reply:
        """Ask one certain server once; nothing is repeated."""
        await self._identified()
        return json_of(
            await self._attempt(path, body if body is None else encoded(body), _SHORTEST_ATTEMPT_SECONDS, at)
        )

    def forked(self) -> bool:
        """Say whether this is a child of the process whose connections these are: it must not touch them."""
        return os.getpid() != self._process

    def alive(self) -> None:
        """Raise `StoreClosed` for a handle that was closed or crossed a fork."""
        if self.forked():
            raise StoreClosed(self.name, "it belongs to the process that this one was forked from")
        if self.closed:
            raise StoreClosed(self.name)

    async def close(self) -> None:
        """Close all connections; in a forked child nothing is done."""
        if self.forked() or self.closed:
            return
        self.closed = True
        for stream in tuple(self.streams):
            await stream.close()
        await self._client.aclose()

    async def _authenticated(
        self, path: str, body: Mapping[str, object] | bytes, seconds: float, *, may_connect: bool = True
    ) -> bytes:
        content = body if isinstance(body, bytes) else encoded(body)
        await self._identified()
        try:
            return await self._attempt(path, content, seconds, self.current, may_connect=may_connect)
        except Rejected as error:
            if not self._user or not any(sign in str(error) for sign in _TOKEN_IS_OLD):
                raise
            self._token = ""
        await self._identified()
        return await self._attempt(path, content, seconds, self.current, may_connect=may_connect)

    async def _identified(self) -> None:
        self.alive()
        if self._user and not self._token:
            words = encoded({"name": self._user, "password": self._password})
            try:
                answer = await self._attempt("/v3/auth/authenticate", words, BUDGET_SECONDS, self.current)
            except Rejected as error:
                if error.code == _EXHAUSTED:
                    raise StoreUnavailable(self.name, str(error)) from error
                hint = "Check user and password of the URL: etcdctl user get USER"
                raise StoreDenied(self.name, f"it refuses the user of the URL: {error}", hint) from error
            except NoReply as error:
                raise Unreached(str(error)) from error  # nothing of what we came for was sent
            self._token = json_of(answer).get("token", "")

    async def _attempt(
        self, path: str, content: bytes | None, seconds: float, at: int, *, may_connect: bool = True
    ) -> bytes:
        """Send one request to one server, and say what is known of its outcome."""
        self.alive()
        timeout = dict.fromkeys(("connect", "read", "write", "pool"), seconds)
        extensions = {"trace": self._traced(may_connect), "timeout": timeout}
        try:
            async with asyncio.timeout(seconds):
                response = await self._client.send(self._request(path, content, extensions, at))
        except _UNSENT as error:
            self.leave(at)
            kind = Distrusted if "certificate verify failed" in str(error) else Unreached
            raise kind(_said(error)) from error
        except _LOST as error:
            self.leave(at)
            self.alive()
            if isinstance(error, ssl.SSLError) and may_connect:  # it refuses our certificate, and will again
                raise Distrusted(_said(error)) from error
            raise NoReply(_said(error)) from error
        if response.status_code == 200:
            return response.content
        raise self._refusal(response.status_code, response.content, at)

    def _refusal(self, status: int, content: bytes, at: int) -> Exception:
        code, message = _problem(content)
        if not message and status < 500:
            return StoreUnavailable(self.name, f"HTTP {status} is no answer of etcd 3.4 or later")
        if code in _NOT_DONE:
            return Rejected(code, message)
        self.leave(at)
        return Unreached(message) if message == _NO_LEADER else NoReply(message or f"HTTP {status} of what is between")

    def _request(
        self, path: str, content: bytes | None, extensions: dict[str, object], at: int | None = None
    ) -> httpx.Request:
        endpoint = self.endpoints[self.current if at is None else at]
        headers = {"Grpc-Metadata-hasleader": "true"}
        if self._token:
            headers["Authorization"] = self._token
        method = "GET" if content is None else "POST"
        return httpx.Request(
            method, endpoint.copy_with(path=path), content=content, headers=headers, extensions=extensions
        )

    def _traced(self, may_connect: bool) -> object:
        async def _notice(event: str, _: object) -> None:
            if event == "connection.connect_tcp.started":
                self.connects += 1
                if not may_connect:
                    raise Unreached("the connection was lost")

        return _notice

    def leave(self, at: int) -> None:
        """Ask another server from now on, if this one is still the one that is asked."""
        if at == self.current:
            self.current = (at + 1) % len(self.endpoints)


class Stream:
    """The lines of one open stream; a pause in them is told apart from their end."""

    def __init__(self, response: httpx.Response, endpoint: int, gateway: Gateway) -> None:
        self.endpoint = endpoint
        self._response = response
        self._chunks = response.aiter_raw()
        self._buffer = bytearray()
        self._pending: asyncio.Task[bytes] | None = None
        self._gateway = gateway
        gateway.streams.add(self)

    async def next(self, *, timeout_seconds: float) -> Message | None:
        """Return the next message, or None when none came in time; `NoReply` when the stream has ended."""
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
            raise NoReply("the stream was closed")
        self._buffer += pending.result()
        return True

    async def close(self) -> None:
        """End the stream with its connection; in a forked child nothing is done."""
        if self._gateway.forked():
            return
        self._gateway.streams.discard(self)
        if self._pending is not None:
            self._pending.cancel()
            await asyncio.gather(self._pending, return_exceptions=True)
        await self._response.aclose()


def pause_seconds(failed: int) -> float:
    """Return how long to wait after so many failures in a row: longer each time, up to a bound, with jitter."""
    return min(_LONGEST_PAUSE_SECONDS, _PAUSE_SECONDS * 2.0 ** min(failed, 10)) * random.uniform(0.5, 1.0)  # noqa: S311


def message_of(line: bytes) -> Message:
    """Return a line of a stream as data; `NoReply` for what is none of etcd."""
    try:
        message: Message = json.loads(line)
    except ValueError as error:
        raise NoReply("a line of the answer is no JSON") from error
    if not isinstance(message, dict):
        raise NoReply("a line of the answer is no object")
    return message


def json_of(content: bytes) -> Reply:
    """Return an answer as data; empty for what is no JSON object."""
    try:
        reply: Reply = json.loads(content)
    except ValueError:
        return {}
    return reply if isinstance(reply, dict) else {}


def _problem(content: bytes) -> tuple[int, str]:
    """Return code and message of an error, which a stream puts one level deeper; no message for a foreign one."""
    answer = json_of(content)
    error = answer.get("error", "")
    if isinstance(error, str):
        return answer.get("code", _UNKNOWN), answer.get("message", error)
    return error.get("grpc_code", _UNKNOWN), error.get("message", "")


async def _chunk(chunks: AsyncIterator[bytes]) -> bytes:
    try:
        return await anext(chunks)
    except StopAsyncIteration as error:
        raise NoReply("the stream has ended") from error
    except _LOST as error:
        raise NoReply(_said(error)) from error


def _said(error: Exception) -> str:
    """Say what went wrong without what was sent: a request's text holds no secret, its headers and body do."""
    return str(error) or f"no answer in time ({type(error).__name__})"
