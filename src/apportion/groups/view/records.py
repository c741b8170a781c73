"""Records: the values of a group's keys, which `keys` lists.

Values are JSON, so that other tools than `apportion group show` can read them. A target has packed owners after its
JSON.
Promises: a record is read field by field, each with its type and range. Reading returns a value or raises
`BadSnapshot`. Fields that this release does not know are skipped.
"""

import json
import sys
import zlib
from array import array
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeVar

from apportion.errors import BadSnapshot, InvalidInput
from apportion.groups.view import fields
from apportion.groups.view.fields import HINT, Reader
from apportion.groups.view.seal import sealed, unsealed
from apportion.model.topology import MAX_ZONE_LEVELS, Node, check_name
from apportion.tables.layout import MAX_NAME_BYTES

Mode = Literal["cooperative", "eager"]
FORMAT = 1
MAX_PARTITIONS = 2**18
MAX_LABELS = 1_000
MAX_GRACE_SECONDS = 7 * 86_400.0
KEPT_DEATHS = 9
KEPT_SESSIONS = 16
NOBODY = 0xFFFF
MAX_MEMBERS = NOBODY
LEAVES, REPLACED, DRAINED = REQUESTS = (b"leaves", b"replaced", b"drained")
Value = TypeVar("Value", "GroupRecord", "MemberRecord", "OwnershipRecord")
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """The settings of a group; every member agrees to them.

    After `quarantine_after` deaths in a row a partition waits for `apportion group release` (None: never).
    """

    partitions: int
    mode: Mode = "cooperative"
    balancer: str = "optimal"
    quarantine_after: int | None = None
    format: int = FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecord:
    """One life of a member. The nonce tells it from any other life; a static member gets `grace_seconds`.

    `left_session` is the session that a static member ended itself, so none of its partitions killed it. `former`
    are earlier sessions of the same process. The process lives on, so nothing killed those sessions either.
    """

    nonce: str
    weight: float = 1.0
    zone: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    grace_seconds: float = 0.0
    left_session: int = 0
    former: tuple[int, ...] = ()

    def node(self, member_id: str, *, drains: bool = False) -> Node:
        """Return the member as balancers see it: a member that drains has weight 0."""
        return Node(member_id, zone=self.zone, weight=0 if drains else self.weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipRecord:
    """The owner of a partition (None: nobody), the session of that owner, and its epoch.

    `ended` lists the last sessions in a row that ended soon after they took the partition; see `crash_loops`.
    """

    owner: str | None = None
    session: int = 0
    epoch: int = 0
    ended: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The wanted owner of each partition (None: nobody), and the digest of the inputs of that decision ("": a step).

    While the target is paused, nobody should own anything, and `owners` are the earlier owners. `idle` lists the
    members that could have owned a partition at the time of the decision, and got none.
    """

    generation: int
    digest: str
    owners: tuple[str | None, ...]
    is_paused: bool = False
    idle: tuple[str, ...] = ()

    def owner(self, partition: int) -> str | None:
        """Return the wanted owner of a partition now, None for nobody."""
        return None if self.is_paused else self.owners[partition]


def encoded(value: GroupRecord | MemberRecord | OwnershipRecord) -> bytes:
    """Return the bytes of a record."""
    return json.dumps(asdict(value), separators=(",", ":"), sort_keys=True).encode()


def decoded(kind: type[Value], value: bytes) -> Value:
    """Read a record; `BadSnapshot` when it is none. Fields that this release does not know are skipped."""
    readers, required = _READERS[kind]
    said = fields.parsed(value)
    known: dict[str, Any] = {}
    for each, reader in readers.items():
        if each in said:
            known[each] = _read(f"{each} of {kind.__name__}", reader, said[each])
        elif each in required:
            raise BadSnapshot(f"{each} of {kind.__name__}", None, "a record that has it", HINT)
    return kind(**known)


def later_format(value: bytes) -> int | None:
    """Return the format of a group record if a later release wrote it, else None. A later format is no damage."""
    try:
        found = fields.parsed(value).get("format")
    except BadSnapshot:
        return None
    return found if type(found) is int and found > FORMAT else None


def encoded_target(target: Target) -> bytes:
    """Return the bytes of a target: a sealed line of JSON, then two bytes per partition, compressed."""
    ids = sorted({owner for owner in target.owners if owner is not None})
    place = {owner: index for index, owner in enumerate(ids)}
    owners = array("H", [NOBODY if owner is None else place[owner] for owner in target.owners])
    if sys.byteorder == "big":
        owners.byteswap()
    head = {
        "generation": target.generation, "digest": target.digest, "ids": ids, "paused": target.is_paused,
        "idle": target.idle,
    }  # fmt: skip
    return sealed(json.dumps(head, separators=(",", ":")).encode() + b"\n" + zlib.compress(owners.tobytes(), 1))


def decoded_target(value: bytes) -> Target:
    """Read a target; `BadSnapshot` when it is none, or when its bytes have changed."""
    head, _, packed = unsealed("target", value).partition(b"\n")
    said: dict[str, Any] = dict.fromkeys(_TARGET_READERS) | {"idle": []} | fields.parsed(head)
    known: dict[str, Any] = {each: _read(f"{each} of a target", of, said[each]) for each, of in _TARGET_READERS.items()}
    if len(known["ids"]) != len(set(known["ids"])):
        raise BadSnapshot("ids of a target", known["ids"], "each once", HINT)
    ids: dict[int, str | None] = {**dict(enumerate(known["ids"])), NOBODY: None}
    try:
        owners = tuple(map(ids.__getitem__, _unpacked(packed)))
    except KeyError as error:
        raise BadSnapshot("owners of a target", error.args[0], f"places below {len(ids) - 1}", HINT) from error
    return Target(
        generation=known["generation"], digest=known["digest"], owners=owners, is_paused=known["paused"],
        idle=known["idle"],
    )  # fmt: skip


def _unpacked(packed: bytes) -> "array[int]":
    """Return the places of the owners of a target; the size is bounded before memory is allocated."""
    expander = zlib.decompressobj()
    try:
        raw = expander.decompress(packed, 2 * MAX_PARTITIONS + 1)
    except zlib.error as error:
        raise BadSnapshot("owners of a target", packed, "bytes that zlib compressed", HINT) from error
    if not expander.eof or expander.unused_data or len(raw) % 2 or len(raw) > 2 * MAX_PARTITIONS:
        raise BadSnapshot("owners of a target", len(raw), f"two bytes each, at most {2 * MAX_PARTITIONS} in all", HINT)
    owners = array("H", raw)
    if sys.byteorder == "big":
        owners.byteswap()
    return owners


def led_by(member_id: str, session: int | None) -> str:
    """Return the value of the controller's key while a session is the controller."""
    return f"{member_id} {session}"


def checked_controller(value: bytes) -> str:
    """Check a value that `led_by` made; `BadSnapshot` for any other."""
    try:
        member_id, _, session = value.decode().rpartition(" ")
    except UnicodeDecodeError as error:
        raise BadSnapshot("controller", value, "text of UTF-8", HINT) from error
    if not (session.isascii() and session.isdecimal() and len(session) < len(str(fields.MOST))):
        raise BadSnapshot("controller", value, "an id and a session", HINT)
    return led_by(_read("id of the controller", fields.member_id, member_id), int(session))


def checked_drain(value: bytes) -> bytes:
    """Return a request to leave; `BadSnapshot` when it is none."""
    if value not in REQUESTS:
        raise BadSnapshot("request to leave", value, "one of " + ", ".join(map(bytes.decode, REQUESTS)), HINT)
    return value


def checked_partitions(partitions: int) -> int:
    """Return a number of partitions; `InvalidInput` for a number that a group cannot have."""
    if type(partitions) is not int or not 1 <= partitions <= MAX_PARTITIONS:
        hint = "Take several times the members that you will ever have, for example 256."
        raise InvalidInput("partitions", partitions, f"an int in 1 .. {MAX_PARTITIONS}", hint)
    return partitions


def checked_group(name: str) -> str:
    """Return the name of a group and of its published table; `InvalidInput` for a name that neither can have."""
    checked_id("name of the group", name)
    if len(name.encode()) > MAX_NAME_BYTES:
        expected, hint = f"at most {MAX_NAME_BYTES} bytes of UTF-8", "Shorten it, for example to its digest."
        raise InvalidInput("name of the group", name, expected, hint)
    return name


def checked_id(what: str, name: str) -> str:
    """Return the name of a group or a member; `InvalidInput` for a name that cannot be part of a key."""
    check_name(what, name)
    if "/" in name:
        raise InvalidInput(what, name, "a name without /", "Write another sign in its place, for example a dot.")
    return name


def is_id(name: str) -> bool:
    """Whether a name can be that of a group or a member."""
    try:
        checked_id("name", name)
    except InvalidInput:
        return False
    return True


def partition_of(key_part: str, partitions: int) -> int | None:
    """Return the partition of `own/<key_part>`, None if a group of `partitions` partitions has none of that number.

    >>> partition_of("17", 32), partition_of("017", 32), partition_of("-1", 32), partition_of("32", 32)
    (17, None, None, None)
    """
    if not (key_part.isascii() and key_part.isdecimal() and len(key_part) <= len(str(MAX_PARTITIONS))):
        return None
    partition = int(key_part)
    return partition if partition < partitions and str(partition) == key_part else None


def _read(what: str, reader: Reader[Part], said: object) -> Part:
    try:
        return reader(said)
    except BadSnapshot as error:
        error.problem = error.problem.replace("record", what, 1)
        raise


_EPOCH = fields.whole(0)
_READERS: dict[type, tuple[Mapping[str, Reader[object]], frozenset[str]]] = {
    GroupRecord: (
        {
            "partitions": fields.whole(1, MAX_PARTITIONS),
            "mode": fields.choice("cooperative", "eager"),
            "balancer": fields.name,
            "quarantine_after": fields.optional(fields.whole(1, KEPT_DEATHS)),
            "format": fields.whole(1),
        },
        frozenset({"partitions"}),
    ),
    MemberRecord: (
        {
            "nonce": fields.text,
            "weight": fields.weight,
            "zone": fields.listed(fields.name, MAX_ZONE_LEVELS),
            "labels": fields.mapped(fields.text, MAX_LABELS),
            "grace_seconds": fields.real(0, MAX_GRACE_SECONDS),
            "left_session": _EPOCH,
            "former": fields.listed(_EPOCH, KEPT_SESSIONS),
        },
        frozenset({"nonce"}),
    ),
    OwnershipRecord: (
        {
            "owner": fields.optional(fields.member_id),
            "session": _EPOCH,
            "epoch": _EPOCH,
            "ended": fields.listed(_EPOCH, KEPT_DEATHS),
        },
        frozenset({"owner", "session", "epoch"}),
    ),
}
_TARGET_READERS: Mapping[str, Reader[object]] = {
    "generation": _EPOCH,
    "digest": fields.text,
    "ids": fields.listed(fields.member_id, MAX_MEMBERS),
    "paused": fields.flag,
    "idle": fields.listed(fields.member_id, MAX_MEMBERS),
}
