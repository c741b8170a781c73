"""What a group keeps in its store: which keys there are, and what their values say.

    group/<name>                      what the group is: partitions, mode, balancer, format; made once
    live/<name>/member/<id>           one life of a member, gone with its lease; its revision is the session
    live/<name>/drain/<id>            somebody asked that member to leave; gone with the same lease
    live/<name>/static/<id>           a static member, remembered after its lease has ended
    live/<name>/controller            who writes the target; gone with its lease, and its revision is the term
    live/<name>/target                who should own what
    live/<name>/own/<partition>       who owns it, in which session, since which epoch; never deleted

All that changes lies under `live/<name>/`, so that one watch shows it in the order in which it happened.
Values are JSON, so that `apportion group show` is not the only way to read them; a target adds packed owners.
"""

import json
import sys
import zlib
from array import array
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar

from apportion.cluster.tables import MAX_NAME_BYTES
from apportion.errors import BadSnapshot, InvalidInput
from apportion.model.topology import Node, check_name

Mode = Literal["cooperative", "eager"]
FORMAT = 1
FORMATS = (FORMAT,)
MAX_PARTITIONS = 2**18
QUARANTINE_DEATHS = 3
NOBODY = 0xFFFF
MAX_MEMBERS = NOBODY
Value = TypeVar("Value", "GroupRecord", "MemberRecord", "Ownership")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of one group."""

    group: str

    @property
    def record(self) -> str:
        """Where it says what the group is."""
        return f"group/{self.group}"

    @property
    def live(self) -> str:
        """The prefix of all that changes."""
        return f"live/{self.group}/"

    @property
    def controller(self) -> str:
        """Where it says who writes the target."""
        return f"{self.live}controller"

    @property
    def target(self) -> str:
        """Where the target is."""
        return f"{self.live}target"

    def member(self, member_id: str) -> str:
        """Where a member says that it is there."""
        return f"{self.live}member/{member_id}"

    def drain(self, member_id: str) -> str:
        """Where a member is asked to leave."""
        return f"{self.live}drain/{member_id}"

    def static(self, member_id: str) -> str:
        """Where a static member is remembered."""
        return f"{self.live}static/{member_id}"

    def own(self, partition: int) -> str:
        """Where it says who owns a partition."""
        return f"{self.live}own/{partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """What a group is; whoever joins must agree with it."""

    partitions: int
    mode: Mode = "cooperative"
    balancer: str = "optimal"
    format: int = FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecord:
    """One life of a member. The nonce tells it from any other; `grace_seconds` is what a static member gets.

    `left_session` is the session that a static member ended itself: whatever it owned did not kill it.
    """

    nonce: str
    weight: float = 1.0
    zone: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    grace_seconds: float = 0.0
    left_session: int = 0
    formats: tuple[int, ...] = FORMATS

    def node(self, member_id: str, *, drains: bool = False) -> Node:
        """Return the member as balancers see it: one that drains gets nothing more."""
        return Node(member_id, zone=self.zone, weight=0 if drains else self.weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Who owns a partition (None: nobody), in which session, since which epoch.

    `deaths` counts the owners in a row that died while they served it. Where these make it a suspect, `among` says how
    many of such its owner tries together (0: nobody said; that is alone). See `poison`.
    """

    owner: str | None = None
    session: int = 0
    epoch: int = 0
    deaths: int = 0
    among: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Who should own each partition (None: nobody), and the digest of what that was decided from ("": a step to it).

    While it is paused nobody should own anything: then `owners` says who did before. `idle` might have owned something
    when it was decided, and got nothing.
    """

    generation: int
    digest: str
    owners: tuple[str | None, ...]
    is_paused: bool = False
    idle: tuple[str, ...] = ()

    def owner(self, partition: int) -> str | None:
        """Return who should own a partition now."""
        return None if self.is_paused else self.owners[partition]


def encoded(value: GroupRecord | MemberRecord | Ownership) -> bytes:
    """Return the bytes of a record."""
    return json.dumps(asdict(value), separators=(",", ":"), sort_keys=True).encode()


def decoded(kind: type[Value], value: bytes) -> Value:
    """Read a record; `BadSnapshot` when it is none. Fields that this release does not know are passed over."""
    try:
        said: dict[str, Any] = json.loads(value)
        known: dict[str, Any] = {each.name: said[each.name] for each in fields(kind) if each.name in said}
        known |= {name: tuple(each) for name, each in known.items() if isinstance(each, list)}
        return kind(**known)
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged(kind.__name__, value) from error


def encoded_target(target: Target) -> bytes:
    """Return the bytes of a target: a line of JSON, then two bytes for each partition, compressed."""
    ids = sorted({owner for owner in target.owners if owner is not None})
    place = {owner: index for index, owner in enumerate(ids)}
    owners = array("H", [NOBODY if owner is None else place[owner] for owner in target.owners])
    if sys.byteorder == "big":
        owners.byteswap()
    head = {
        "generation": target.generation, "digest": target.digest, "ids": ids, "paused": target.is_paused,
        "idle": target.idle,
    }  # fmt: skip
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + zlib.compress(owners.tobytes(), 1)


def decoded_target(value: bytes) -> Target:
    """Read a target; `BadSnapshot` when it is none."""
    head, _, packed = value.partition(b"\n")
    try:
        said = json.loads(head)
        owners = array("H", zlib.decompressobj().decompress(packed, 2 * MAX_PARTITIONS))
        if sys.byteorder == "big":
            owners.byteswap()
        ids: dict[int, str | None] = {**dict(enumerate(said["ids"])), NOBODY: None}
        named = tuple(map(ids.__getitem__, owners))
        return Target(
            generation=said["generation"], digest=said["digest"], owners=named, is_paused=bool(said["paused"]),
            idle=tuple(said.get("idle", ())),
        )  # fmt: skip
    except (ValueError, TypeError, KeyError, IndexError, zlib.error) as error:
        raise _damaged("target", value) from error


def led_by(member_id: str, session: int | None) -> str:
    """Return what the controller's key says while a session is the controller."""
    return f"{member_id} {session}"


def checked_partitions(partitions: int) -> int:
    """Return a number of partitions; `InvalidInput` for one that a group cannot have."""
    if type(partitions) is not int or not 1 <= partitions <= MAX_PARTITIONS:
        hint = "Take some times as many as members you will ever have, for example 256."
        raise InvalidInput("partitions", partitions, f"an int in 1 .. {MAX_PARTITIONS}", hint)
    return partitions


def checked_group(name: str) -> str:
    """Return the name of a group, which its published table has too; `InvalidInput` for one that neither can have."""
    checked_id("name of the group", name)
    if len(name.encode()) > MAX_NAME_BYTES:
        expected, hint = f"at most {MAX_NAME_BYTES} bytes of UTF-8", "Shorten it, for example to its digest."
        raise InvalidInput("name of the group", name, expected, hint)
    return name


def checked_id(what: str, name: str) -> str:
    """Return the name of a group or a member; `InvalidInput` for one that cannot be part of a key."""
    check_name(what, name)
    if "/" in name:
        raise InvalidInput(what, name, "a name without /", "Write another sign in its place, for example a dot.")
    return name


def partition_of(keys: Keys, key: str) -> int:
    """Return which partition an ownership record is about."""
    return int(key.removeprefix(keys.own(0)[:-1]))


def _damaged(what: str, value: bytes) -> BadSnapshot:
    hint = "The store holds what no release wrote. Look at it with: apportion group show"
    return BadSnapshot(f"{what} in the store", value, "one that apportion wrote", hint)
