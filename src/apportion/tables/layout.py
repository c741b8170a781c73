"""Layout: the keys of a published table in a store, and the chunks that make each version.

    table/<name>/head                         the pointer: the newest version, and the links that make it
    table/<name>/<version>.<nonce>/<part>     the chunks of a link: written once, never changed, deleted when unneeded

The first link of a head is a snapshot. Each other link is the delta of a version from the one before. Chunks are
written first and the head last, so every chunk that a head names exists. A scan shows all keys at one revision. The
nonce separates the chunks of two publishers that write the same number. No head names the chunks of a publisher that
was too late or died.

Promises: the numbers of versions only grow; a value with another epoch than announced is never returned.
Refuses: to read a head that a later release wrote.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise, takewhile

from apportion.errors import BadSnapshot, InvalidInput
from apportion.model.assignment import Assignment
from apportion.model.codec.parsing import epoch, integer, items, members, refuse, text
from apportion.model.epoch import Epoch
from apportion.model.table import Table
from apportion.model.topology import check_name
from apportion.tables.deltas import Routing, applied, delta, of_snapshot, snapshot

MAX_DELTAS = 32
"""The most deltas that a new reader applies to the snapshot."""

MAX_NAME_BYTES = 200
TABLES = "table/"
_FORMAT_VERSION = 1
_KINDS = ("assignment", "table")
_AGAIN = "Publish the table again; it becomes the next version."


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Version:
    """A version of a name: its number, within one life of the store. A later life has greater versions.

    >>> Version(incarnation=1, number=9) < Version(incarnation=2, number=3), str(Version(incarnation=2, number=3))
    (True, '2:3')
    """

    incarnation: int
    number: int

    def __str__(self) -> str:
        return f"{self.incarnation}:{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionLink:
    """The chunks of one version: a snapshot, or the delta from the version before."""

    version: int
    nonce: str
    parts: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest version: the life of the store that it was published in, its kind, its epoch, and its links."""

    incarnation: int
    kind: str
    epoch: Epoch
    links: tuple[VersionLink, ...]

    @property
    def version(self) -> int:
        """The number of the newest version."""
        return self.links[-1].version


@dataclass(frozen=True, slots=True)
class TableKeys:
    """The keys of one name.

    >>> TableKeys("orders").parts(VersionLink(version=7, nonce="5bb0ed41", parts=2, size_bytes=9))[1]
    'table/orders/7.5bb0ed41/1'
    """

    name: str
    room: str = TABLES

    def __post_init__(self) -> None:
        check_name("table name", self.name)
        if "/" in self.name or len(self.name.encode()) > MAX_NAME_BYTES:
            expected = f"at most {MAX_NAME_BYTES} bytes without a slash"
            raise InvalidInput("table name", self.name, expected, "Write it with '.' or '-' instead, or shorten it.")

    @property
    def prefix(self) -> str:
        """The prefix of all keys of this name, and of no other name."""
        return f"{self.room}{self.name}/"

    @property
    def head(self) -> str:
        """The key of the pointer."""
        return f"{self.prefix}head"

    @staticmethod
    def name_of(key: str) -> str:
        """Return the name of the table to which a key belongs.

        >>> TableKeys.name_of("table/orders/7.5bb0ed41/1")
        'orders'
        """
        return key.removeprefix(TABLES).partition("/")[0]

    def version_of(self, key: str) -> int:
        """Return the version of the key of a chunk, 0 for any other key."""
        number = key.removeprefix(self.prefix).partition(".")[0]
        return int(number) if number.isascii() and number.isdecimal() and len(number) < 20 else 0

    def parts(self, link: VersionLink) -> list[str]:
        """Return the keys of a link's chunks, in their order."""
        return [self.part(link, part) for part in range(link.parts)]

    def part(self, link: VersionLink, part: int) -> str:
        """Return the key of one chunk of a link."""
        return f"{self.prefix}{link.version}.{link.nonce}/{part}"


def routed(value: Routing) -> Routing:
    """Return the part of a value that routing needs: the whole table, or the partitions and owners of an assignment.

    Sizes, rule, home, certificate and the nodes that are down are left out. Only the program that makes the next
    assignment needs them.
    """
    if isinstance(value, Assignment):
        return Assignment(topology=value.topology, rows=value.rows, names=value.names)
    if isinstance(value, Table):
        return value
    hint = "Publish the table() of a placement, or the assignment of its slots."
    raise InvalidInput("value to publish", value, "a Table or an Assignment", hint)


def follow_up(
    head: Head | None, was: Routing | None, now: Routing, *, incarnation: int, number: int, nonce: str, part_bytes: int
) -> tuple[Head, list[bytes]]:
    """Return the head of version `number`, which follows `head`, and the chunks of its last link.

    The last link is a delta if one can be made. The head must then have at most `MAX_DELTAS` deltas, and together these
    must be smaller than their snapshot. Otherwise the last link is a snapshot.
    """
    payload = None
    if head is not None and was is not None and len(head.links) <= MAX_DELTAS:
        base, *deltas = head.links
        payload = delta(was, now)
        if payload is not None and len(payload) + sum(link.size_bytes for link in deltas) >= base.size_bytes:
            payload = None
    before = () if head is None or payload is None else head.links
    payload = snapshot(now) if payload is None else payload
    chunks = [payload[start : start + part_bytes] for start in range(0, len(payload), part_bytes)]
    link = VersionLink(version=number, nonce=nonce, parts=len(chunks), size_bytes=len(payload))
    return Head(incarnation=incarnation, kind=kind_of(now), epoch=now.epoch, links=(*before, link)), chunks


def resolved(
    head: Head, keys: TableKeys, chunks: Mapping[str, bytes], *, at: tuple[VersionLink, Routing] | None = None
) -> Routing:
    """Return the value that a head announces.

    The value is made from the snapshot and the deltas. If the head has the link in `at`, the value is made from the
    value in `at` and the deltas after that link. Raises `BadSnapshot` when a chunk is missing or damaged, or the value
    has another epoch.
    """
    if at is not None and at[0] in head.links and kind_of(at[1]) == head.kind:
        value, links = at[1], head.links[head.links.index(at[0]) + 1 :]
    else:
        value, links = (
            of_snapshot(payload_of(head.links[0], keys, chunks), is_table=head.kind == "table"),
            head.links[1:],
        )
    for link in links:
        value = applied(value, payload_of(link, keys, chunks))
    if value.epoch != head.epoch:
        raise BadSnapshot(f"epoch of table {keys.name}", str(value.epoch), f"{head.epoch}, as announced", _AGAIN)
    return value


def recounted(head: Head, keys: TableKeys, chunks: Mapping[str, bytes]) -> Head:
    """Return a head with links that name only the chunks that exist. Its epoch shows whether the value is right."""
    links = []
    for link in head.links:
        names = (keys.part(link, part) for part in count())
        sizes = [len(chunks[name]) for name in takewhile(chunks.__contains__, names)]
        links.append(replace(link, parts=len(sizes), size_bytes=sum(sizes)))
    return replace(head, links=tuple(links))


def kind_of(value: Routing) -> str:
    """Return the word for the kind of a value: table or assignment."""
    return "table" if isinstance(value, Table) else "assignment"


def encode_head(head: Head) -> bytes:
    """Return a head as bytes, some 40 bytes per link."""
    form = {
        "format_version": _FORMAT_VERSION,
        "incarnation": head.incarnation,
        "kind": head.kind,
        "epoch": [head.epoch.number, head.epoch.digest],
        "links": [[link.version, link.nonce, link.parts, link.size_bytes] for link in head.links],
    }
    return json.dumps(form, separators=(",", ":")).encode()


def decode_head(data: bytes) -> Head:
    """Return the head that bytes hold; `BadSnapshot` for other bytes, and for a head of a later release."""
    try:
        form = json.loads(data)
    except (ValueError, RecursionError) as error:
        hint = "Restore the store from a copy, or publish under another name."
        raise BadSnapshot("head of a table", data, "the JSON that apportion writes", hint) from error
    found = form.get("format_version") if isinstance(form, dict) else None
    if found != _FORMAT_VERSION:
        raise BadSnapshot("format_version of a table's head", found, f"{_FORMAT_VERSION}", "Upgrade this client.")
    _, incarnation, kind, number, listed = members(form, "format_version", "incarnation", "kind", "epoch", "links")
    links = tuple(link_of(items(link, 4)) for link in items(listed))
    if text(kind) not in _KINDS or not links:
        refuse(kind, "'assignment' or 'table', and at least one link")
    for before, after in pairwise(links):
        if after.version != before.version + 1:
            refuse(after.version, f"the version after {before.version}")
    return Head(incarnation=integer(incarnation), kind=text(kind), epoch=_epoch(number), links=links)


def _epoch(form: object) -> Epoch:
    try:
        return epoch(form)
    except InvalidInput as error:
        raise BadSnapshot("epoch of a table's head", None, "a number and a digest", _AGAIN) from error


def is_of_later_release(data: bytes) -> bool:
    """Whether a later release wrote a head. Such a head is not damaged, and this release does not replace it."""
    try:
        form = json.loads(data)
    except (ValueError, RecursionError):
        return False
    found = form.get("format_version") if isinstance(form, dict) else None
    return type(found) is int and found > _FORMAT_VERSION


def link_of(form: Sequence[object]) -> VersionLink:
    """Return the link that a JSON list of four items describes; `BadSnapshot` if it describes none."""
    version, parts, size_bytes = integer(form[0]), integer(form[2]), integer(form[3])
    if min(version, parts, size_bytes) < 1:
        refuse(str(form), "a link of at least one chunk")
    return VersionLink(version=version, nonce=text(form[1]), parts=parts, size_bytes=size_bytes)


def payload_of(link: VersionLink, keys: TableKeys, chunks: Mapping[str, bytes]) -> bytes:
    """Return the joined chunks of a link; `BadSnapshot` if one is missing.

    A count above the number of all chunks is refused before any key is made: a damaged head may claim billions.
    """
    names = keys.parts(link) if link.parts <= len(chunks) else []
    found = [chunks[name] for name in names if name in chunks]
    if len(found) != link.parts:
        raise BadSnapshot(f"chunks of version {link.version}", len(found), f"{link.parts} chunks", _AGAIN)
    payload = b"".join(found)
    if len(payload) != link.size_bytes:
        raise BadSnapshot(f"chunks of version {link.version}", len(payload), f"{link.size_bytes} bytes", _AGAIN)
    return payload
