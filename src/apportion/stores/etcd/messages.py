"""etcd's messages: our requests to its JSON gateway and its answers, as plain data; no I/O.

Promises: keys and values are bytes here and base64 on the wire. Numbers of 64 bits are text on the wire.
Source: etcd's `rpc.proto` and `kv.proto` (Apache-2.0), versions 3.4 to 3.6, in the JSON of its gateway.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict

from apportion.stores.api import Event, Item
from apportion.stores.requests import CommitRequest, Space

# This key belongs to no namespace: a namespace begins with a letter or a digit.
INCARNATION_KEY = b"!apportion/incarnation"
NO_LEADER = "etcdserver: no leader"  # a server that sends this has not begun the request
_UNKNOWN_CODE = 2  # the code UNKNOWN of gRPC


class Header(TypedDict, total=False):
    """The cluster that answered, and the revision of its store at that time."""

    cluster_id: str
    revision: str


class KeyValue(TypedDict, total=False):
    """A key as the store keeps it. Fields that are zero or empty are left out."""

    key: str
    value: str
    mod_revision: str
    lease: str


class RangeReply(TypedDict, total=False):
    """The keys of a range, in order, and whether there are more."""

    kvs: list[KeyValue]
    more: bool


class OperationReply(TypedDict, total=False):
    """The result of one operation of a transaction."""

    response_range: RangeReply


class WatchEvent(TypedDict, total=False):
    """The change of one key; PUT when no type is given."""

    type: str
    kv: KeyValue


class Failure(TypedDict, total=False):
    """An error inside a stream that had status 200."""

    grpc_code: int
    message: str


class StreamMessage(TypedDict, total=False):
    """One message of a watch, or of the renewal of a lease."""

    header: Header
    watch_id: str
    created: bool
    canceled: bool
    cancel_reason: str
    compact_revision: str
    fragment: bool
    events: list[WatchEvent]
    ID: str
    TTL: str


class Message(TypedDict, total=False):
    """One line of a stream."""

    result: StreamMessage
    error: Failure


class Reply(RangeReply, total=False):
    """All fields that the store reads from answers. Each answer has some of them."""

    header: Header
    succeeded: bool
    responses: list[OperationReply]
    ID: str
    TTL: str
    token: str
    leader: str
    dbSize: str
    raftAppliedIndex: str
    members: list[dict[str, str]]  # the `ID` and the `name` of each server
    alarms: list[dict[str, str]]  # each with an `alarm`: NOSPACE or CORRUPT
    code: int
    message: str
    error: str | Failure


@dataclass(frozen=True, slots=True)
class StoreLife:
    """A life of the store: its incarnation, its cluster, and the bytes that encode both.

    `surplus` is the length of the cluster's log less its revision at the start of this life; None if unknown.
    """

    incarnation: int
    cluster: str
    surplus: int | None
    written: bytes

    @classmethod
    def of(cls, incarnation: int, cluster: str, surplus: int | None) -> "StoreLife":
        """Return the life of an incarnation in a cluster."""
        written = f"{incarnation} {cluster} {'unknown' if surplus is None else surplus}".encode()
        return cls(incarnation, cluster, surplus, written)

    @classmethod
    def read(cls, reply: RangeReply) -> "StoreLife | None":
        """Return the life that the incarnation's key holds; None without a key, ValueError for a foreign value."""
        for found in reply.get("kvs", ()):
            written = b64decode(found.get("value", ""))
            incarnation, cluster, surplus = written.decode().split(" ")
            return cls(int(incarnation), cluster, None if surplus == "unknown" else int(surplus), written)
        return None


def text_of(data: bytes) -> str:
    """Return bytes in the form that the gateway expects."""
    return b64encode(data).decode()


def range_of(start: bytes, end: bytes | None = None, limit: int = 0, revision: int = 0) -> dict[str, object]:
    """Return a request for one key, or for a half-open range of keys."""
    bounds = {"key": text_of(start)} if end is None else {"key": text_of(start), "range_end": text_of(end)}
    return {**bounds, "limit": limit, "revision": str(revision)}


READ_LIFE = {"request_range": range_of(INCARNATION_KEY)}


def transaction_of(request: CommitRequest, life: StoreLife) -> dict[str, object]:
    """Return a commit as one transaction. It also compares the life of the store; if refused, it reads that life."""
    compares = [_same(life), *(_compare(key, revision) for key, revision in request.compares)]
    puts = [{"request_put": _put(key, value, lease)} for key, value, lease in request.puts]
    deletes = [{"request_delete_range": {"key": text_of(key)}} for key in request.deletes]
    return {"compare": compares, "success": [*puts, *deletes], "failure": [READ_LIFE]}


def rebirth_of(before: StoreLife | None, after: StoreLife) -> dict[str, object]:
    """Return the transaction that begins the life `after`, if the store still has the life `before`."""
    compare = _compare(INCARNATION_KEY, None) if before is None else _same(before)
    return {"compare": [compare], "success": [{"request_put": _put(INCARNATION_KEY, after.written, None)}]}


def watch_of(start: bytes, end: bytes, *, since: int, life_since: int) -> bytes:
    """Return a request for two watches in one stream: number 0 for a range, number 1 for the incarnation."""
    bounds = {"key": text_of(start), "range_end": text_of(end), "start_revision": str(since)}
    wanted = {**bounds, "fragment": True, "progress_notify": True}
    life = {"key": text_of(INCARNATION_KEY), "start_revision": str(life_since)}
    return encoded({"create_request": wanted}) + encoded({"create_request": life})


def encoded(message: object) -> bytes:
    """Return a message as a line of JSON."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def items_of(found: Iterable[KeyValue], space: Space) -> Iterable[Item]:
    """Return keys as items of a namespace."""
    for each in found:
        value, revision = b64decode(each.get("value", "")), int(each["mod_revision"])
        if (item := space.item((b64decode(each["key"]), value, revision, _lease_of(each)))) is not None:
            yield item


def event_of(event: WatchEvent, space: Space) -> Event | None:
    """Return the change of a key as an event of a namespace; None for a key that is not text."""
    kv = event["kv"]
    if not space.has(b64decode(kv["key"])):
        return None
    deleted = event.get("type") == "DELETE"
    value = None if deleted else b64decode(kv.get("value", ""))
    return Event(key=space.text(b64decode(kv["key"])), value=value, lease=None if deleted else _lease_of(kv))


def json_of(content: bytes) -> Reply:
    """Return an answer as data; empty for content that is not a JSON object."""
    try:
        reply: Reply = json.loads(content)
    except ValueError:
        return {}
    return reply if isinstance(reply, dict) else {}


def problem_of(content: bytes) -> tuple[int, str]:
    """Return the code and the message of an error; the message of an error that is not from etcd is empty.

    In a stream, the code and the message are inside the field `error`.
    """
    answer = json_of(content)
    error = answer.get("error", "")
    if isinstance(error, str):
        return answer.get("code", _UNKNOWN_CODE), answer.get("message", error)
    return error.get("grpc_code", _UNKNOWN_CODE), error.get("message", "")


def _lease_of(kv: KeyValue) -> int | None:
    return int(kv.get("lease", "0")) or None


def _same(life: StoreLife) -> dict[str, object]:
    written = {"target": "VALUE", "result": "EQUAL", "value": text_of(life.written)}
    return {"key": text_of(INCARNATION_KEY), **written}


def _compare(key: bytes, revision: int | None) -> dict[str, object]:
    # An absent key has revision 0, so one kind of compare serves both.
    return {"key": text_of(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision or 0)}


def _put(key: bytes, value: bytes, lease: int | None) -> dict[str, object]:
    put: dict[str, object] = {"key": text_of(key), "value": text_of(value)}
    return put if lease is None else {**put, "lease": str(lease)}
