"""A proxy between a handle and its server that acts as networks do: lose, delay, trickle, refuse, cut, and repeat.

It knows no protocol. A request is the data that a client sends at once. Its reply is the data that the server sends
next on that connection. Promises: the proxy loses a reply only after the server has sent it, so the server has done
the request.
"""

import asyncio
from dataclasses import dataclass, field

_CHUNK_BYTES = 1 << 16
_REPLAY_SECONDS = 2.0


@dataclass(eq=False, slots=True)
class _Link:
    """One connection through the proxy: its two ends, the requests so far, and whether the next reply is lost.

    Nothing passes while `passes` is not set. `pause_seconds` come after each byte of a reply.
    """

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    passes: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[bytes] = field(default_factory=list)
    answered: bool = True
    loses: bool = False
    pause_seconds: float = 0.0

    def cut(self) -> None:
        """Reset both ends."""
        for end in (self.client, self.server):
            end.transport.abort()


class Proxy:
    """A listener on this machine that passes data on to `target`; `lost` counts the lost requests and replies."""

    lost: int

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.lost = 0
        self._until_loss: int | None = None
        self._loses_request = False
        self._delay_seconds = self._pause_seconds = 0.0
        self._refuses = False
        self._links: list[_Link] = []
        self._pumps: set[asyncio.Task[None]] = set()
        self._is_silent = False
        self._server: asyncio.Server

    async def open(self) -> None:
        """Begin to listen, on a free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    @property
    def address(self) -> tuple[str, int]:
        """The address that clients connect to."""
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    def lose_reply(self, nth: int | None) -> None:
        """Pass the nth request from now on, then cut its connection before the reply passes; None loses no more."""
        self._until_loss, self._loses_request = nth, False

    def lose_request(self, nth: int) -> None:
        """Cut the connection of the nth request from now on, instead of passing the request."""
        self._until_loss, self._loses_request = nth, True

    def delay(self, seconds: float) -> None:
        """Delay everything that passes, by this number of seconds."""
        self._delay_seconds = seconds

    def trickle(self, seconds: float) -> None:
        """Pass everything byte by byte, with this pause after each byte."""
        self._pause_seconds = seconds

    def refuse(self) -> None:
        """Reset each new connection; open connections go on."""
        self._refuses = True

    def silence(self) -> None:
        """Pass nothing more, and report nothing: a black hole."""
        self._is_silent = True
        self.half_open()

    def half_open(self) -> None:
        """Pass nothing more on the open connections, and report nothing; new connections work."""
        for link in self._links:
            link.passes.clear()

    def trickle_open(self, seconds: float) -> None:
        """Pass replies on open connections byte by byte, with this pause after each byte; new connections work."""
        for link in self._links:
            link.pause_seconds = seconds

    def heal(self) -> None:
        """Pass everything again, at once, also the data that was sent in the meantime."""
        self._is_silent = self._refuses = False
        self._delay_seconds = self._pause_seconds = 0.0
        self._until_loss = None
        self.trickle_open(0.0)
        for link in self._links:
            link.passes.set()

    def cut(self) -> None:
        """Reset every connection."""
        for link in self._links:
            link.cut()

    async def repeat(self) -> int:
        """Send the server all requests of each connection again, on a new one; return the number of requests."""
        links = [list(link.requests) for link in self._links]
        for requests in links:
            reader, writer = await asyncio.open_connection(*self.target)
            for request in requests:
                writer.write(request)
                try:
                    await asyncio.wait_for(reader.read(_CHUNK_BYTES), _REPLAY_SECONDS)
                except (TimeoutError, ConnectionError):
                    break
            writer.close()
        return sum(map(len, links))

    async def close(self) -> None:
        """Stop listening and cut open connections."""
        self._server.close()
        self.cut()
        self.heal()
        for pump in self._pumps:  # a task may be in a long pause
            pump.cancel()
        if self._pumps:
            await asyncio.wait(self._pumps)

    async def _accept(self, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        if self._refuses:
            client.transport.abort()
            return
        try:
            server_reader, server = await asyncio.open_connection(*self.target)
        except OSError:
            client.transport.abort()
            return
        link = _Link(client, server)
        if not self._is_silent:
            link.passes.set()
        self._links.append(link)
        for pump in (self._requests(link, client_reader), self._replies(link, server_reader)):
            task = asyncio.create_task(pump)
            self._pumps.add(task)
            task.add_done_callback(self._pumps.discard)

    async def _requests(self, link: _Link, reader: asyncio.StreamReader) -> None:
        try:
            while data := await reader.read(_CHUNK_BYTES):
                await link.passes.wait()
                if self._is_lost(link, data):
                    return
                await self._pass(data, link, link.server)
        except ConnectionError:
            pass
        link.server.close()

    def _is_lost(self, link: _Link, data: bytes) -> bool:
        """Record a request; data that a client sends before the answer belongs to the same request.

        Return whether the request was lost with its connection.
        """
        if not link.answered:
            link.requests[-1] += data
            return False
        link.requests.append(data)
        link.answered = False
        if self._until_loss is None or self._until_loss > 1:
            self._until_loss = None if self._until_loss is None else self._until_loss - 1
            return False
        self._until_loss, link.loses = None, not self._loses_request
        if self._loses_request:
            self.lost += 1
            link.cut()
        return self._loses_request

    async def _pass(self, data: bytes, link: _Link, end: asyncio.StreamWriter) -> None:
        """Pass data on to an end of a link, with the configured delay and pauses."""
        if self._delay_seconds:
            await asyncio.sleep(self._delay_seconds)
        while data and (pause := self._pause_seconds or (link.pause_seconds if end is link.client else 0.0)):
            end.write(data[:1])
            await end.drain()
            data = data[1:]
            await asyncio.sleep(pause)
        end.write(data)
        await end.drain()

    async def _replies(self, link: _Link, reader: asyncio.StreamReader) -> None:
        try:
            while data := await reader.read(_CHUNK_BYTES):
                await link.passes.wait()
                link.answered = True
                if link.loses:
                    self.lost += 1
                    link.cut()
                    return
                await self._pass(data, link, link.client)
        except ConnectionError:
            pass
        link.client.close()
