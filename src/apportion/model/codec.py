"""Codec: values as bytes that can be stored, sent, and read by every later release.

A snapshot is one JSON object on one line. Its head (kind, format version, cluster, checksum) has a fixed form that is
read without a parser; the checksum covers every other byte; only then is the body parsed.

Promises: a snapshot that is cut anywhere, or has one bit turned, is refused; so is one above the size cap (before it is
looked at), of an unknown version, of another kind or another cluster, with a repeated key, or with a number that is not
finite. Every version ever released stays readable. The same value makes the same bytes on every platform.
Refuses: secrecy and proof of origin; the checksum finds damage, not malice.
"""

import json
import re
from typing import TypeVar

from apportion.errors import BadSnapshot, InvalidInput
from apportion.model.assignment import Assignment
from apportion.model.epoch import content_digest
from apportion.model.forms import from_form, to_form
from apportion.model.plan import Plan
from apportion.model.table import Table
from apportion.model.topology import Topology

MAX_BYTES = 64 * 2**20
MAX_CONTAINERS = 3_000_000
"""More than a table within MAX_BYTES can have: what is small to read may not be large to hold."""

FORMAT_VERSION = 1

Snapshot = TypeVar("Snapshot", Topology, Table, Assignment, Plan)

_KINDS: dict[type, str] = {Topology: "topology", Table: "table", Assignment: "assignment", Plan: "plan"}
_HEAD = re.compile(
    rb'\{"apportion":"(?P<kind>[a-z]{1,16})","format_version":(?P<version>[0-9]{1,20}),'
    rb'"cluster":(?P<cluster>"(?:[^"\\]|\\.){0,1600}"),"checksum":"(?P<checksum>[0-9a-f]{32})","body":'
)
_TAIL = b"}\n"


def encode(value: Topology | Table | Assignment | Plan) -> bytes:
    """Return the snapshot of a value. O(size); raises `BadSnapshot` above 64 MiB.

    >>> encode(Topology(["a"]))[:60]
    b'{"apportion":"topology","format_version":1,"cluster":"","che'
    """
    kind = _kind_of(type(value))
    cluster = json.dumps(_cluster_of(value)).encode()
    body = json.dumps(to_form(value), separators=(",", ":"), allow_nan=False).encode()
    version = str(FORMAT_VERSION).encode()
    checksum = content_digest(kind.encode(), version, cluster, body).encode()
    data = b'{"apportion":"%b","format_version":%b,"cluster":%b,"checksum":"%b","body":%b%b' % (
        kind.encode(), version, cluster, checksum, body, _TAIL,
    )  # fmt: skip
    _check_size(data)
    return data


def decode(data: bytes, kind: type[Snapshot], *, cluster: str | None = None) -> Snapshot:
    """Return the value of type `kind` that `data` is the snapshot of, for any cluster or just the named one.

    O(size). Raises `BadSnapshot` for bytes that were damaged, or that say what no value can.

    >>> decode(encode(Topology(["b", "a"])), Topology).ids
    ('a', 'b')
    """
    wanted = _kind_of(kind)
    if not isinstance(data, (bytes, bytearray)):
        raise BadSnapshot("snapshot", data, "bytes", "Open the file in binary mode.")
    _check_size(data)
    head = _HEAD.match(data)
    if head is None:
        raise BadSnapshot("snapshot", data, "bytes that apportion saved", "Check that it is the right file, and whole.")
    if int(head["version"]) != FORMAT_VERSION:
        raise BadSnapshot(
            "format_version",
            int(head["version"]),
            str(FORMAT_VERSION),
            "Read it with the release that wrote it, or upgrade.",
        )
    body = data[head.end() : -len(_TAIL)]
    expected = content_digest(head["kind"], head["version"], head["cluster"], body).encode()
    if not data.endswith(_TAIL) or head["checksum"] != expected:
        raise BadSnapshot(
            "checksum", head["checksum"].decode(), expected.decode(), "It was cut or edited; take a fresh copy."
        )
    if head["kind"].decode() != wanted:
        raise BadSnapshot(
            "snapshot kind", head["kind"].decode(), repr(wanted), "Pass the file that the command asks for."
        )
    value = from_form(_parsed(body), kind)
    found = _cluster_of(value)
    if json.dumps(found).encode() != head["cluster"] or cluster not in (None, found):
        raise BadSnapshot("cluster", found, repr(cluster), "It belongs to another cluster; pick the right file.")
    return value


def _kind_of(kind: type) -> str:
    name = _KINDS.get(kind)
    if name is None:
        raise InvalidInput(
            "snapshot kind", getattr(kind, "__name__", kind), "Topology, Table, Assignment or Plan",
            "Of a placement, save its table() or its assignment.",
        )  # fmt: skip
    return name


def _cluster_of(value: Topology | Table | Assignment | Plan) -> str:
    topology = value if isinstance(value, Topology) else value.new if isinstance(value, Plan) else value.topology
    return topology.cluster


def _check_size(data: bytes) -> None:
    if len(data) > MAX_BYTES:
        raise BadSnapshot(
            "snapshot size", len(data), f"at most {MAX_BYTES} bytes", "Save fewer keys, slots or tokens at once."
        )


def _parsed(body: bytes) -> object:
    if body.count(b"[") + body.count(b"{") > MAX_CONTAINERS:
        raise BadSnapshot("snapshot body", body, f"at most {MAX_CONTAINERS} lists and objects", "Take a fresh copy.")
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
        raise BadSnapshot("snapshot keys", str([key for key, _ in pairs]), "each key once", "Take a fresh copy.")
    return members


def _refuse_number(text: str) -> object:
    raise BadSnapshot("snapshot number", text, "an integer; weights are counted in millionths", "Take a fresh copy.")
