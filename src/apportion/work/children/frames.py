"""Frames: the messages between a worker and its children. Each is a JSON object after its length."""

import asyncio
import json
import struct
from typing import Any, BinaryIO

_SIZE = struct.Struct("!I")


def frame(said: dict[str, Any]) -> bytes:
    """Return a message as bytes.

    >>> frame({"begun": True})
    b'\\x00\\x00\\x00\\x0f{"begun": true}'
    """
    body = json.dumps(said).encode()
    return _SIZE.pack(len(body)) + body


def read(stream: BinaryIO) -> dict[str, Any] | None:
    """Return the next message of a stream, None at its end."""
    head = stream.read(_SIZE.size)
    body = stream.read(*_SIZE.unpack(head)) if len(head) == _SIZE.size else b""
    return json.loads(body) if body else None


async def awaited(stream: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next message of an asyncio stream, None at its end."""
    try:
        (size,) = _SIZE.unpack(await stream.readexactly(_SIZE.size))
        said: dict[str, Any] = json.loads(await stream.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return said
