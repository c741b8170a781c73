"""Envelope: values as bytes that can be stored, sent, and read by every later release; see docs/snapshots.md.

The head has a fixed form that is read without a parser. The checksum covers everything except itself. After this check,
the columns of numbers are cut out, also without a parser. The rest is parsed last.
Promises: a snapshot that was cut or changed, or has another kind, version or cluster than wanted, is refused. A
refusal takes less than 64 MiB of memory, even if the checksum fits. Every version ever released stays readable. The
same value makes the same bytes on every platform.
Does not promise: secrecy, or a proof of origin. The checksum detects damage, but not a deliberate change.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from apportion.errors import BadSnapshot, InvalidInput
from apportion.model.assignment import Assignment
from apportion.model.codec import bodies
from apportion.model.codec.columns import SavedColumns
from apportion.model.epoch import content_digest
from apportion.model.plan import Plan
from apportion.model.table import Table
from apportion.model.topology import Topology

MAX_BYTES = 16 * 2**20
FORMAT_VERSION = 2
OWNER_DIGITS = 8

# `_PARSING_BYTES` is the memory that reading JSON may take. The costs below are the most memory that it takes per
# byte of text, per value, and per member of an object.
_PARSING_BYTES = 60 * 2**20
_TEXT_COST, _VALUE_COST, _MEMBER_COST = 3, 96, 160

Snapshot = TypeVar("Snapshot", Topology, Table, Assignment, Plan)

_KINDS: dict[type, str] = {Topology: "topology", Table: "table", Assignment: "assignment", Plan: "plan"}
_HEAD = re.compile(
    rb'\{"apportion":"(?P<kind>[a-z]{1,16})","format_version":(?P<version>[0-9]{1,20}),'
    rb'"cluster":(?P<cluster>"(?:[^"\\]|\\.){0,1600}"),"checksum":"(?P<checksum>[0-9a-f]{32})",'
)
_COLUMNS, _AFTER_COLUMNS, _BODY, _TAIL = b'"columns":{', b"},", b'"body":', b"}\n"
_COLUMN = re.compile(rb',?"([a-z_]{1,20})":"')


def encode(value: Topology | Table | Assignment | Plan) -> bytes:
    """Return the snapshot of a value. O(size); raises `BadSnapshot` above 16 MiB.

    >>> encode(Topology(["a"]))[:60]
    b'{"apportion":"topology","format_version":2,"cluster":"","che'
    """
    kind = _kind_of(type(value)).encode()
    cluster = json.dumps(_cluster_of(value)).encode()
    form, columns_of = bodies.to_form(value)
    columns = b",".join(b'"%b":"%b"' % (name.encode(), column.hex().encode()) for name, column in columns_of.items())
    body = json.dumps(form, separators=(",", ":"), allow_nan=False).encode()
    _check_parsing(body)
    rest = b"".join((_COLUMNS, columns, _AFTER_COLUMNS, _BODY, body))
    version = str(FORMAT_VERSION).encode()
    checksum = _checksum(kind, version, cluster, rest).encode()
    data = b'{"apportion":"%b","format_version":%b,"cluster":%b,"checksum":"%b",%b%b' % (
        kind, version, cluster, checksum, rest, _TAIL,
    )  # fmt: skip
    _check_size(len(data))
    return data


def check_owners(*, partitions: int, replicas: int) -> None:
    """Raise `BadSnapshot` for an assignment whose owners alone take more than 16 MiB when saved. O(1).

    A program calls this before it computes an assignment that it wants to save.
    """
    _check_size(OWNER_DIGITS * partitions * replicas)


def decode(data: bytes, kind: type[Snapshot], *, cluster: str | None = None) -> Snapshot:
    """Return the value of type `kind` from its snapshot. With `cluster`, refuse the snapshot of another cluster.

    O(size). Raises `BadSnapshot` for damaged bytes, and for content that no value can have.

    >>> decode(encode(Topology(["b", "a"])), Topology).ids
    ('a', 'b')
    """
    body, columns, named = unsealed(data, kind, cluster=cluster)
    with naming(kind):
        value = cast(Snapshot, bodies.READERS[kind](body, columns, named))
    if columns.spans:
        listed = ", ".join(columns.spans)
        raise BadSnapshot("columns of the snapshot", listed, "those of its kind", "Take a fresh copy.")
    if _cluster_of(value) != named:
        raise BadSnapshot(
            "cluster",
            named,
            repr(_cluster_of(value)),
            "The head of the snapshot is from another file; take a fresh copy.",
        )
    return value


def unsealed(data: bytes, kind: type[Snapshot], *, cluster: str | None = None) -> tuple[object, SavedColumns, str]:
    """Return the body, columns and cluster of a snapshot. Body and columns are not checked.

    This is for callers that use the columns without making the value, as a routing table does. Raises as `decode` does.
    """
    head = _checked_head(data, _kind_of(kind), FORMAT_VERSION, _checksum)
    named = _parsed(head["cluster"])
    if not isinstance(named, str) or cluster not in (None, named):
        raise BadSnapshot("cluster", named, repr(cluster), "It belongs to another cluster; pick the right file.")
    spans, start = _spans(data, head.end())
    return _parsed(_body(data, start)), SavedColumns(data, spans), named


def wrapped(kind: str, body: bytes) -> bytes:
    """Return a JSON body as a snapshot of format version 1, of a kind that `encode` does not know.

    `body_in` returns the body.
    """
    checksum = content_digest(kind.encode(), b"1", b'""', body).encode()
    head = b'{"apportion":"%b","format_version":1,"cluster":"","checksum":"%b",' % (kind.encode(), checksum)
    return b"".join((head, _BODY, body, _TAIL))


def body_in(data: bytes, kind: str) -> bytes:
    """Return the body of a snapshot that `wrapped` made; the body is not checked. Raises as `decode` does."""
    return _body(data, _checked_head(data, kind, 1, content_digest, after=_BODY).end())


@contextmanager
def naming(kind: type) -> Iterator[None]:
    """Add the kind of the snapshot to the error when a part of the snapshot is refused."""
    try:
        yield
    except BadSnapshot:
        raise
    except InvalidInput as error:
        refusal = BadSnapshot("snapshot body", None, "a valid one", error.hint)
        refusal.problem = f"in the saved {_kind_of(kind)}, {error.problem}"
        raise refusal from error


def _checked_head(
    data: bytes, wanted: str, version: int, digest: Callable[..., str], *, after: bytes = b""
) -> "re.Match[bytes]":
    """Return the head of a snapshot of the wanted kind and version, after a check of the checksum.

    The checksum covers the bytes that follow the head and the mark `after`.
    """
    if not isinstance(data, (bytes, bytearray)):
        raise BadSnapshot("snapshot", data, "bytes", "Open the file in binary mode.")
    _check_size(len(data))
    head = _HEAD.match(data)
    if head is None:
        raise BadSnapshot("snapshot", data, "bytes that apportion saved", "Check that it is the right file, and whole.")
    kind = head["kind"].decode()
    if kind != wanted:
        raise BadSnapshot("snapshot kind", kind, repr(wanted), "Pass a snapshot of that kind.")
    if int(head["version"]) != version:
        hint = "Read it with the release that wrote it, or upgrade."
        raise BadSnapshot("format_version", int(head["version"]), str(version), hint)
    with memoryview(data) as view, view[head.end() + len(after) : -len(_TAIL)] as rest:
        expected = digest(head["kind"], head["version"], head["cluster"], rest)
    if not data.endswith(_TAIL) or head["checksum"].decode() != expected:
        raise BadSnapshot("checksum", head["checksum"].decode(), expected, "It was cut or edited; take a fresh copy.")
    return head


def _body(data: bytes, start: int) -> bytes:
    return data[_after(_BODY, data, start) : -len(_TAIL)]


def _after(mark: bytes, data: bytes, start: int) -> int:
    if not data.startswith(mark, start):
        raise BadSnapshot("snapshot", data[start : start + 60], mark.decode(), "Take a fresh copy.")
    return start + len(mark)


def _spans(data: bytes, start: int) -> tuple[dict[str, tuple[int, int]], int]:
    """Return the span of the digits of each column, and the start of the body. The first column is at `start`."""
    spans: dict[str, tuple[int, int]] = {}
    start = _after(_COLUMNS, data, start)
    while name := _COLUMN.match(data, start):
        end = data.find(b'"', name.end())
        if name[1].decode() in spans:
            raise BadSnapshot("columns of the snapshot", name[1].decode(), "each once", "Take a fresh copy.")
        spans[name[1].decode()] = (name.end(), end)
        start = end + 1
    return spans, _after(_AFTER_COLUMNS, data, start)


def _checksum(*parts: bytes | memoryview) -> str:
    from xxhash import xxh3_128  # noqa: PLC0415 - loaded with the first snapshot

    checksum = xxh3_128()
    for part in parts:
        checksum.update(len(part).to_bytes(8, "little"))
        checksum.update(part)
    return checksum.hexdigest()


def _kind_of(kind: type) -> str:
    name = _KINDS.get(kind) if isinstance(kind, type) else None
    if name is None:
        expected, hint = "Topology, Table, Assignment or Plan", "Save the table() or the assignment of a placement."
        raise InvalidInput("snapshot kind", getattr(kind, "__name__", kind), expected, hint)
    return name


def _cluster_of(value: Topology | Table | Assignment | Plan) -> str:
    topology = value if isinstance(value, Topology) else value.new if isinstance(value, Plan) else value.topology
    return topology.cluster


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        hint = "Save fewer keys, slots, tokens or partitions in one file."
        raise BadSnapshot("snapshot size", size, f"at most {MAX_BYTES} bytes", hint)


def _check_parsing(body: bytes) -> None:
    """Refuse a body that is short, but would take too much memory when parsed."""
    values = body.count(b"[") + body.count(b"{") + body.count(b",")
    cost = _TEXT_COST * len(body) + _VALUE_COST * values + _MEMBER_COST * body.count(b":")
    if cost > _PARSING_BYTES:
        hint = "Save fewer nodes at once."
        raise BadSnapshot("values in the snapshot", values, f"as many as fit into {_PARSING_BYTES} bytes", hint)


def _parsed(body: bytes) -> object:
    _check_parsing(body)
    try:
        return json.loads(
            body.decode("ascii"),
            object_pairs_hook=_without_repeats,
            parse_constant=_refuse_number,
            parse_float=_refuse_number,
        )
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise BadSnapshot("snapshot body", body, "the JSON that apportion writes", "Take a fresh copy.") from error


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise BadSnapshot("snapshot keys", len(pairs), "each key once", "Take a fresh copy.")
    return members


def _refuse_number(text: str) -> object:
    raise BadSnapshot("snapshot number", text, "an integer; weights are counted in millionths", "Take a fresh copy.")
