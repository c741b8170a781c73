"""The link to a Redis server: its connections, and a typed error for each of their failures.

Promises: every new connection reads the server's `run_id` and replication id, and passes both to the script `ENTER`.
A restart or a fail-over changes these ids. If they differ from the ids in the data, the script begins a new
incarnation. No request is sent again after its reply was lost. Every call is bounded in time.
Refuses: Redis Cluster, replicas, servers before 6.2, and servers that may evict any key.
"""

import asyncio
import os
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha1
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from apportion.errors import (
    ApportionError,
    InvalidInput,
    MissingExtra,
    StoreClosed,
    StoreDenied,
    StoreUnavailable,
    shown,
)
from apportion.stores.redis import scripts
from apportion.stores.url import StoreUrl

try:
    from redis.asyncio.connection import AbstractConnection, Connection, ConnectionPool, SSLConnection
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.exceptions import (
        AuthenticationError,
        NoPermissionError,
        NoScriptError,
        OutOfMemoryError,
        ReadOnlyError,
        RedisError,
        ResponseError,
    )
    from redis.exceptions import TimeoutError as ClientTimeout
except ModuleNotFoundError as _missing:
    raise MissingExtra("the client of Redis stores", "redis") from _missing

if TYPE_CHECKING:
    from redis.exceptions import RedisError as ClientError

OLDEST = (6, 2)
CONNECT_SECONDS = 4.0
USUAL_PATIENCE_SECONDS = 2.5  # a quarter of the usual lease of 10 s; `granted` may lower it
_PATIENCE_PER_TTL = 0.25
_DATABASES = 16_384
_REFUSALS = (OutOfMemoryError, ReadOnlyError)
_CODES_OF_REFUSALS = ("OOM", "MISCONF", "NOREPLICAS", "BUSY")
_CONNECT_ERROR = re.compile(r"Error (\d+) connecting to ")
Reply = list[Any]

# A forked child must not use inherited connections, and must keep them from the garbage collector. The collector would
# close a connection, and so remove it from the event loop's selector, which parent and child share.
_links: "WeakSet[RedisLink]" = WeakSet()
_inherited: list["RedisLink"] = []
os.register_at_fork(after_in_child=lambda: _inherited.extend(_links))


class Unanswered(StoreUnavailable):
    """The request was sent, and no reply came: the request may have happened."""

    def __init__(self, store: str, reason: str) -> None:
        hint = "The request may have happened, or may still happen. Read the state of the store, or repeat the request."
        super().__init__(store, reason, hint)


class RedisLink:
    """Connections of one handle to one server. Without `greets`, a new connection changes nothing on the server."""

    closed: bool

    def __init__(self, url: StoreUrl, *, greets: bool = True) -> None:
        self.name: str = str(url)
        self.closed = False
        self._greets = greets
        self._fingerprint = ""
        self._patience_seconds = USUAL_PATIENCE_SECONDS
        self._pid = os.getpid()
        self._pool = ConnectionPool(
            connection_class=SSLConnection if url.scheme == "rediss" else Connection,
            redis_connect_func=self._greet,
            retry=Retry(NoBackoff(), 0),  # one try to connect; a connection sends a request once
            protocol=2,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=None,  # `ask` bounds the whole call
            **_where(url),
        )
        _links.add(self)

    def granted(self, ttl_seconds: float) -> None:
        """Note the time to live of a lease: from now on, a reply must come within a quarter of that time."""
        self._patience_seconds = min(self._patience_seconds, ttl_seconds * _PATIENCE_PER_TTL)

    async def ask(self, *words: str | bytes | int, within: float = 0.0) -> Any:  # noqa: ANN401 - a reply
        """Send a command and return its reply. The server may wait `within` seconds before it answers.

        After `StoreUnavailable` the command had no effect. After `Unanswered` its effect is unknown.
        """
        async with self._connection() as connection:
            return await self._exchange(connection, words, within)

    async def run(self, script: str, *arguments: str | bytes | int) -> Reply:
        """Run a script with the server's identity as its first argument. The first word of the reply is the verdict."""
        digest = sha1(script.encode(), usedforsecurity=False).hexdigest()
        async with self._connection() as connection:
            words = (len(scripts.NAMES), *scripts.NAMES, self._fingerprint, *arguments)
            try:
                reply = await self._exchange(connection, ("EVALSHA", digest, *words))
            except NoScriptError:  # a server forgets its scripts when it restarts
                reply = await self._exchange(connection, ("EVAL", script, *words))
        return self._known(reply)

    async def aclose(self) -> None:
        """Close the connections, unless they belong to the parent process."""
        if not self.closed and os.getpid() == self._pid:
            self.closed = True
            await self._pool.disconnect()

    def require_open(self) -> None:
        """Raise `StoreClosed` if the link was closed, or if this process is a forked child."""
        if os.getpid() != self._pid:
            raise StoreClosed(self.name, "it belongs to the parent of this forked process")
        if self.closed:
            raise StoreClosed(self.name)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator["AbstractConnection"]:
        self.require_open()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        except (RedisError, OSError) as error:
            raise self._denial(error) or StoreUnavailable(self.name, _reason(error)) from error
        try:
            yield connection
        finally:
            await self._pool.release(connection)

    async def _exchange(
        self, connection: "AbstractConnection", words: Sequence[str | bytes | int], within: float = 0.0
    ) -> Any:  # noqa: ANN401
        try:
            async with asyncio.timeout(self._patience_seconds + within):
                await connection.send_command(*words)
                return await connection.read_response()
        except TimeoutError as error:
            await self._pool.disconnect(inuse_connections=False)  # idle connections may be just as silent
            raise self._lost(error) from error
        except NoScriptError:
            raise
        except ResponseError as error:
            raise self._refusal(error) from error
        except (RedisError, OSError) as error:
            raise self._lost(error) from error

    async def _greet(self, connection: "AbstractConnection") -> None:
        """Log in on a new connection, look at the server, and run `ENTER` with the server's identity."""
        await connection.on_connect()
        if not self._greets:
            return
        try:
            await connection.send_command("INFO")
            facts = parsed_info(await connection.read_response())
            for refusal in refusals(self.name, facts):
                raise refusal
            self._fingerprint = f"{facts['run_id']}/{facts.get('master_replid', '')}"
            await connection.send_command("EVAL", scripts.ENTER, len(scripts.NAMES), *scripts.NAMES, self._fingerprint)
            self._known(await connection.read_response())
        except ApportionError:
            await connection.disconnect(nowait=True)
            raise

    def _known(self, reply: Reply) -> Reply:
        reply[0] = reply[0].decode()
        if reply[0] == "format":
            expected = f"format {scripts.FORMAT}, which this release knows"
            hint = "Use the release of apportion that wrote this format."
            raise InvalidInput(f"format of {self.name}", reply[1].decode(), expected, hint)
        return reply

    def _denial(self, error: Exception) -> StoreDenied | None:
        """Return the error for a refusal that no repetition changes; None for any other error."""
        if isinstance(error, AuthenticationError):
            return StoreDenied(self.name, "it refuses this user or password", "Check both in the URL.")
        if isinstance(error, NoPermissionError):
            hint = "Give this user the rights that this prints: apportion store grants URL --user NAME"
            return StoreDenied(self.name, "this user lacks rights on it", hint)
        if isinstance(error.__context__, ssl.SSLCertVerificationError):
            hint = "Name the authority that signed the server's certificate: rediss://host/0?ca=file"
            return StoreDenied(self.name, shown(error.__context__.verify_message), hint)
        return None

    def _refusal(self, error: "ClientError") -> ApportionError:
        denial = self._denial(error)
        if denial is not None:
            return denial
        if isinstance(error, _REFUSALS) or any(code in str(error) for code in _CODES_OF_REFUSALS):
            return StoreUnavailable(self.name, _reason(error))
        return Unanswered(self.name, _reason(error))

    def _lost(self, error: Exception) -> ApportionError:
        if self.closed:
            return StoreClosed(self.name)
        return self._denial(error) or Unanswered(self.name, _reason(error))


def parsed_info(info: bytes) -> dict[str, str]:
    """Return the facts of an INFO reply."""
    pairs = (line.partition(":") for line in info.decode(errors="replace").splitlines())
    return {name: value for name, mark, value in pairs if mark}


def refusals(store: str, facts: dict[str, str]) -> Sequence[ApportionError]:
    """Return the reasons to refuse a server, the worst first; empty for a usable server."""
    found: list[ApportionError] = []
    version = facts.get("redis_version", "")
    if tuple(int(part) for part in version.split(".")[:2] if part.isdecimal()) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        found.append(
            InvalidInput(f"server of {store}", f"Redis {version}", f"{oldest} or newer", "Upgrade the server.")
        )
    if not facts.get("run_id"):
        expected = "an id that changes with each restart"
        hint = "Ask the operator of the server to show run_id in INFO."
        found.append(InvalidInput(f"run_id of {store}", facts.get("run_id"), expected, hint))
    if facts.get("cluster_enabled") == "1":
        hint = "Run a single server for coordination: each script of this store needs all keys on one server."
        found.append(InvalidInput(f"server of {store}", "Redis Cluster", "a single server", hint))
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy.startswith("allkeys"):
        hint = "Set maxmemory-policy noeviction: this server may drop any key when memory is short."
        found.append(InvalidInput(f"maxmemory-policy of {store}", policy, "noeviction", hint))
    if "master_host" in facts:
        found.append(StoreUnavailable(store, "it is a replica", "Name its primary."))
    return found


def _where(url: StoreUrl) -> dict[str, Any]:
    """Return the client's connection parameters; `InvalidInput` for parts of the URL that make no sense."""
    if len(url.hosts) != 1 or not url.host:
        expected, hint = "exactly one host", "Write for example redis://:password@host:6379/0"
        raise InvalidInput("hosts of the store URL", ",".join(host for host, _ in url.hosts), expected, hint)
    database = url.path or "0"
    if not (database.isascii() and database.isdecimal() and int(database) < _DATABASES):
        hint = "Most servers have the databases 0 to 15."
        raise InvalidInput("database of the store URL", database, "a number, as in redis://host/0", hint)
    for secret in (url.user, url.password):
        try:
            secret.encode()
        except UnicodeEncodeError:
            expected, hint = "text without lone surrogates", "Percent-encode its bytes."
            raise InvalidInput("user or password of the store URL", "(not shown)", expected, hint) from None
    where: dict[str, Any] = {"host": url.host, "port": url.hosts[0][1] or 6379, "db": int(database)}
    where.update(username=url.user or None, password=url.password or None)
    ca = url.option("ca")
    if ca and url.scheme != "rediss":
        raise InvalidInput("option of the store URL", "ca", "rediss:// with ca", "Write rediss:// for TLS.")
    if ca and not os.access(ca, os.R_OK):
        raise InvalidInput("option ca of the store URL", ca, "a readable file of certificates", "Check its path.")
    if url.scheme == "rediss":
        where.update(ssl_cert_reqs="required", ssl_check_hostname=True, ssl_ca_certs=ca or None)
    return where


def _reason(error: Exception) -> str:
    if isinstance(error, OutOfMemoryError):
        return "its memory is full (maxmemory)"
    if isinstance(error, (TimeoutError, ClientTimeout)):
        return "no answer in time"
    if isinstance(error.__context__, ssl.SSLError):
        return shown(error.__context__.reason or "TLS failed")
    number = _CONNECT_ERROR.match(str(error))
    return os.strerror(int(number[1])).lower() if number and "SSL" not in str(error) else shown(str(error))
