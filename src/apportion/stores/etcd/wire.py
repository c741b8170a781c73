"""Wire: the connections of a process to one etcd cluster, two lanes for requests and one connection per stream.

A lane is one connection that carries one request at a time. One lane is for commits and scans, the other for renewals,
so no scan delays a renewal. The lane of commits closes its connection after a minute of rest.

Promises: the handles of one process and event loop share a wire if they name the same cluster. Silence on a connection
lasts no longer than a quarter of the shortest lease granted over the wire. Then the connection is closed, and all
streams are opened anew. docs/stores/etcd.md has the bounds of each request. After a failure, the next server is asked.
With `etcds` the server's certificate and name are always checked; no option switches the check off.
Refuses: to claim that a request without an answer had no effect (`EtcdNoReply`).
"""

import asyncio
import os
import random
import ssl
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import httpx

from apportion.errors import InvalidInput, StoreUnavailable
from apportion.stores.etcd.messages import NO_LEADER, Reply, problem_of
from apportion.stores.shared import Shared
from apportion.stores.url import DEFAULT_NAMESPACE, StoreUrl

BUDGET_SECONDS = 5.0
USUAL_PATIENCE_SECONDS = 2.5  # a quarter of the usual lease of 10 s; `granted` may lower it
_PATIENCE_PER_TTL = 0.25
_PATIENCES_OF_A_RENEWAL = 1.0
_PATIENCES_OF_A_REQUEST = 2.0  # other requests may carry many bytes, and delay no renewal
_REST_SECONDS = 60.0
_PORT = 2379
_NOT_THAT = "the connection was lost"
# The codes of gRPC after which a request had no effect: INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED,
# RESOURCE_EXHAUSTED, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED, UNAUTHENTICATED.
EXHAUSTED = 8
_NOT_DONE = frozenset({3, 5, 7, EXHAUSTED, 9, 11, 12, 16})
# UnicodeError: the host is no valid name. OSError: a time-out, or an error of TLS that httpx passes on.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, UnicodeError)
LOST = (httpx.HTTPError, OSError)


class Unreached(Exception):
    """The request was not sent, or the server surely did not begin it."""


class Distrusted(Unreached):
    """The client or the server does not trust the other's certificate."""


class EtcdNoReply(Exception):
    """The request was sent, and no answer tells its outcome."""


class Rejected(Exception):
    """The server answered that it refuses the request; nothing was done."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Wire:
    """The connections to one cluster. All requests go to one server until it fails. `taken` makes or shares a wire."""

    current: int
    user: str
    password: str
    token: str
    patience_seconds: float
    commits: "Lane"
    renewals: "Lane"

    def __init__(self, url: StoreUrl) -> None:
        self.name: str = str(url)
        self.endpoints: tuple[httpx.URL, ...] = tuple(_endpoint(url, host, port) for host, port in url.hosts)
        self.current = random.randrange(len(self.endpoints))  # noqa: S311 - so that not all ask the same server
        self.user, self.password, self.token = url.user, url.password, ""
        self.patience_seconds = USUAL_PATIENCE_SECONDS
        self.streams: set[Callable[[], None]] = set()  # `Stream.doubt` of each open stream
        # The start and the answer of the last look at the store: one look serves the watches of all handles.
        self.looking: asyncio.Lock = asyncio.Lock()
        self.looked: tuple[float, Reply] = (float("-inf"), {})
        trust = tls(url)
        self.commits, self.renewals = (
            Lane(self, trust, rest_seconds=_REST_SECONDS, patiences=_PATIENCES_OF_A_REQUEST),
            Lane(self, trust, rest_seconds=None, patiences=_PATIENCES_OF_A_RENEWAL),
        )
        # Each watch keeps its connection, so the number of connections has no bound.
        self._streaming = _client(trust, httpx.Limits(max_keepalive_connections=0))
        self._process = os.getpid()
        self._key = _key(url)

    @classmethod
    def taken(cls, url: StoreUrl) -> "Wire":
        """Return the wire of this process and event loop to the cluster of a URL. End with `let_go`."""
        return _shared.take(_key(url), lambda: cls(url))

    async def let_go(self) -> None:
        """Stop using the wire; its last user closes the connections."""
        if _shared.give_back(self._key):
            for each in (self.commits, self.renewals):
                await each.close()
            await self._streaming.aclose()

    def granted(self, ttl_seconds: float) -> None:
        """Note the time to live of a lease: from now on, silence lasts at most a quarter of that time."""
        self.patience_seconds = min(self.patience_seconds, ttl_seconds * _PATIENCE_PER_TTL)

    def budget_seconds(self, patiences: float = _PATIENCES_OF_A_REQUEST) -> float:
        """Return the longest time to await a whole answer, even if its bytes come slowly."""
        return min(BUDGET_SECONDS, patiences * self.patience_seconds)

    def doubt(self) -> None:
        """Have all streams opened anew: one connection of this process was silent, so the others may be dead too."""
        for doubt in tuple(self.streams):
            doubt()

    def forked(self) -> bool:
        """Return whether this process is a forked child, which must not touch the connections of its parent."""
        return os.getpid() != self._process

    def leave(self, at: int) -> None:
        """Ask the next server from now on, if the server with the number `at` is still the current one."""
        if at == self.current:
            self.current = (at + 1) % len(self.endpoints)

    def request(self, path: str, content: bytes | None, at: int, extensions: dict[str, object]) -> httpx.Request:
        """Return a request to the server with the number `at`. A server without a leader refuses it."""
        headers = {"Grpc-Metadata-hasleader": "true"}
        if self.token:
            headers["Authorization"] = self.token
        target = self.endpoints[at].copy_with(path=path)
        return httpx.Request(
            "GET" if content is None else "POST", target, content=content, headers=headers, extensions=extensions
        )

    def refusal(self, status: int, content: bytes, at: int) -> Exception:
        """Return the error for an answer with a status other than 200."""
        code, message = problem_of(content)
        if not message and status < 500:
            return StoreUnavailable(self.name, f"HTTP {status} is not an answer of etcd 3.4 or later")
        if code in _NOT_DONE:
            return Rejected(code, message)
        self.leave(at)
        return Unreached(message) if message == NO_LEADER else EtcdNoReply(message or f"HTTP {status} from a proxy")

    async def stream(self, path: str, body: bytes, at: int) -> httpx.Response:
        """Open a stream on a connection of its own. The answer may be a refusal; its content is still unread."""
        request = self.request(path, body, at, {"timeout": dict.fromkeys(("connect", "write"), self.patience_seconds)})
        try:
            async with asyncio.timeout(self.patience_seconds):
                return await self._streaming.send(request, stream=True)
        except LOST as error:
            self.leave(at)
            raise EtcdNoReply(said(error)) from error


class Lane:
    """One connection that carries one request at a time; `connects` counts how often it was opened.

    `patiences` bounds the time of a whole request, in multiples of the patience of the wire.
    """

    def __init__(
        self, wire: Wire, trust: ssl.SSLContext | bool, *, rest_seconds: float | None, patiences: float
    ) -> None:
        self.connects = 0
        self.turn: asyncio.Lock = asyncio.Lock()
        self._wire, self._patiences = wire, patiences
        self._connection = partial(_client, trust, httpx.Limits(max_connections=1, keepalive_expiry=rest_seconds))
        self._client = self._connection()

    async def send(self, path: str, content: bytes | None, at: int, *, on: int | None = None) -> bytes:
        """Send one request to one server; return the answer, or raise an error that tells the known effect.

        `on` is the number of the connection that the request may use; without one, a new connection may be opened.
        """
        async with self.turn:
            if on not in (None, self.connects):
                raise Unreached(_NOT_THAT)
            patience = self._wire.patience_seconds
            timeout = dict.fromkeys(("connect", "read", "write", "pool"), patience)
            request = self._wire.request(
                path, content, at, {"trace": self._traced(may_connect=on is None), "timeout": timeout}
            )
            try:
                async with asyncio.timeout(self._wire.budget_seconds(self._patiences)):
                    response = await self._answer(request)
            except _UNSENT as error:
                self._wire.leave(at)
                kind = Distrusted if "certificate verify failed" in str(error) else Unreached
                raise kind(said(error)) from error
            except LOST as error:
                self._wire.leave(at)
                if isinstance(error, (httpx.ReadTimeout, TimeoutError)):
                    self._wire.doubt()
                if isinstance(error, ssl.SSLError) and on is None:  # our certificate is refused; a retry cannot help
                    raise Distrusted(said(error)) from error
                raise EtcdNoReply(said(error)) from error
        if response.status_code == 200:
            return response.content
        raise self._wire.refusal(response.status_code, response.content, at)

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        """Return the answer; without an answer, replace the whole client.

        In the old client, the connection of a cancelled request may count as busy for ever.
        """
        client, is_answered = self._client, False
        try:
            response = await client.send(request)
            is_answered = True
        finally:
            if not is_answered:
                self._client = self._connection()
                await client.aclose()
        return response

    def _traced(self, *, may_connect: bool) -> object:
        async def _notice(event: str, _: object) -> None:
            if event == "connection.connect_tcp.started":
                self.connects += 1
                if not may_connect:
                    raise Unreached(_NOT_THAT)

        return _notice


def _endpoint(url: StoreUrl, host: str, port: int | None) -> httpx.URL:
    scheme = "https" if url.scheme == "etcds" else "http"
    try:
        return httpx.URL(scheme=scheme, host=host, port=port or _PORT, path="/")
    except httpx.InvalidURL as error:
        raise InvalidInput("host of the store URL", host, "a name or an address", "Write etcd://host:2379") from error


def tls(url: StoreUrl) -> ssl.SSLContext | bool:
    """Return a TLS context with the trusted authorities and our own certificate; False for a URL without TLS."""
    if url.scheme != "etcds":
        return False
    ca, certificate, key = url.option("ca"), url.option("cert"), url.option("key")
    try:
        context = ssl.create_default_context(cafile=ca or None)
        if certificate:
            context.load_cert_chain(certificate, key or None, password="")  # never ask the terminal for a password
    except OSError as error:  # ssl.SSLError is a subclass
        named = f"ca={ca} cert={certificate} key={key}"
        hint = f"Check these files: {error}"
        raise InvalidInput("TLS files of the store URL", named, "readable PEM files", hint) from error
    return context


def said(error: Exception) -> str:
    """Return the text of an error. The text holds no secret; the request of the error does, in headers and body."""
    return str(error) or f"no answer in time ({type(error).__name__})"


def _client(trust: ssl.SSLContext | bool, limits: httpx.Limits) -> httpx.AsyncClient:
    # HTTP proxies are for the web, so the proxies that the environment names are not used.
    return httpx.AsyncClient(verify=trust, trust_env=False, limits=limits, timeout=BUDGET_SECONDS)


def _key(url: StoreUrl) -> StoreUrl:
    """Return the key under which handles share a wire: the URL without its namespace."""
    return replace(url.canonical(), namespace=DEFAULT_NAMESPACE)


_shared: Shared[Wire] = Shared()
