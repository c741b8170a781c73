"""Records of a set in the control store: the set itself, and the place of each shard.

    shards/<set>/set           format, number of hash slots, hasher; written once
    shards/<set>/shard/<id>    URLs without passwords, weight, zone, timeline of a server of PostgreSQL
    shards/<set>/moving        the slots of each move that is under way; `mover.records` reads it
    shards/<set>/move/<id>     a move; `mover.records` reads it
    shards/<set>/migration     the newest migration; `migration.record` reads it
    shards/<set>/periods       the tables that keep their rows by time; `periods.records` reads it
    shards/<set>/partitions/…  the partitions of a shard; `periods.records` reads it
    load/<set>/<place>         keys of the sessions of one process; `load.record` reads it
    table/<set>/…              the table of the slots, written by the publisher of tables

Promises: a record of an unknown format, or with a damaged field, raises `BadSnapshot`. No field is guessed.
Refuses: passwords in URLs. Write `${NAME}`, and each process fills in the value from its environment.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from apportion.errors import BadSnapshot, InvalidInput, UnknownOption
from apportion.model.codec.parsing import integer, items, pairs, refuse, text
from apportion.model.topology import Node, check_name
from apportion.placement.hashers import DEFAULT
from apportion.shards.shard_url import address_in, check_no_password, check_server
from apportion.shards.slots import check_hash_slots
from apportion.shards.timeline.timeline import Timeline
from apportion.tables.layout import TableKeys

FORMAT = 1
SHARDS = "shards/"
LOADS = "load/"
MOST_SHARD_BYTES = 63
REPLICATION_URL = "replication URL of a shard"
_SHARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_BOUND = 2**64
_COPY = "Restore the control store from a copy."

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class SetKeys:
    """The keys of one set."""

    name: str

    def __post_init__(self) -> None:
        TableKeys(self.name)

    @property
    def prefix(self) -> str:
        """The prefix of all keys of this set, and of no other."""
        return f"{SHARDS}{self.name}/"

    @property
    def set(self) -> str:
        """The key of the set's own record."""
        return f"{self.prefix}set"

    @property
    def moving(self) -> str:
        """The key of the list of slots that are moving."""
        return f"{self.prefix}moving"

    @property
    def migration(self) -> str:
        """The key of the record of the newest migration. Its resource on a shard has the same name."""
        return f"{self.prefix}migration"

    @property
    def load(self) -> str:
        """The prefix of the places for samples of keys."""
        return f"{LOADS}{self.name}/"

    @property
    def periods(self) -> str:
        """The key of the record of the tables that keep their rows by time."""
        return f"{self.prefix}periods"

    def partitions(self, shard_id: str) -> str:
        """Return the key of the record of a shard's partitions."""
        return f"{self.prefix}partitions/{shard_id}"

    def move(self, move_id: str) -> str:
        """Return the key of a move's record. The mover's token names this key as its resource on a shard."""
        return f"{self.prefix}move/{move_id}"

    def shard(self, shard_id: str) -> str:
        """Return the key of a shard's record."""
        return f"{self.prefix}shard/{shard_id}"

    def shard_of(self, key: str) -> str | None:
        """Return the shard that has its record under this key. Return None for any other key."""
        start = self.shard("")
        return key.removeprefix(start) if key.startswith(start) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRecord:
    """The facts that never change in a set. `holder` is the shard that had rows before, "" if none had."""

    hash_slots: int
    hasher: str = DEFAULT
    holder: str = ""

    def __post_init__(self) -> None:
        check_hash_slots(self.hash_slots)

    def encode(self) -> bytes:
        """Return the record as bytes."""
        return encoded({"slots": self.hash_slots, "hasher": self.hasher, "holder": self.holder})

    @classmethod
    def decode(cls, data: bytes) -> "SetRecord":
        """Return the record that bytes hold."""
        fields = Fields(decoded(data, "set"), "slots", "hasher", "holder")
        slots = fields.read("slots", lambda value: check_hash_slots(integer(value)))
        return cls(hash_slots=slots, hasher=fields.read("hasher", text), holder=fields.read("holder", text))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRecord:
    """The URL and the zone of a shard, and its weight for its share of the slots.

    `replication_url` is the URL at which servers of other shards reach this shard. If it is "", they use `url`.
    `timeline` is the noted timeline of its server. It is None for a file, and until a connection has noted it.
    """

    url: str
    weight: float = 1.0
    zone: tuple[str, ...] = ()
    timeline: Timeline | None = None
    replication_url: str = ""

    def __post_init__(self) -> None:
        check_no_password(self.url, "URL of a shard")
        if self.replication_url:
            check_server(self.url, "URL of a shard with a replication URL")
            check_server(self.replication_url, REPLICATION_URL)
            check_no_password(self.replication_url, REPLICATION_URL)

    def node(self, shard_id: str) -> Node:
        """Return the shard as a node of the set's topology."""
        return Node(check_shard_id(shard_id), weight=self.weight, zone=self.zone)

    def address(self) -> str:
        """Return the URL with the values of the environment. Errors are those of `address_in`."""
        return address_in(self.url, "URL of a shard")

    def encode(self) -> bytes:
        """Return the record as bytes."""
        noted = {} if self.timeline is None else {"timeline": f"{self.timeline}"}
        noted |= {"replication_url": self.replication_url} if self.replication_url else {}
        return encoded({"url": self.url, "weight": self.weight, "zone": list(self.zone), **noted})

    @classmethod
    def decode(cls, data: bytes) -> "ShardRecord":
        """Return the record that bytes hold."""
        form = decoded(data, "shard")
        noted = [each for each in ("timeline", "replication_url") if each in pairs(form)]
        fields = Fields(form, "url", "weight", "zone", *noted)
        zone = fields.read("zone", lambda value: tuple(map(text, items(value))))
        record = cls(
            url=fields.read("url", text),
            weight=fields.read("weight", number),
            zone=zone,
            timeline=fields.read("timeline", Timeline.of) if "timeline" in noted else None,
            replication_url=fields.read("replication_url", text) if "replication_url" in noted else "",
        )
        Node("any", weight=record.weight, zone=record.zone)  # refuses a weight or zone that a node cannot have
        return record


def records_of(shards: Mapping[str, str], replication_urls: Mapping[str, str] | None = None) -> dict[str, ShardRecord]:
    """Return a record for each URL. `replication_urls` has URLs for servers of other shards, by the id of the shard."""
    others = {} if replication_urls is None else replication_urls
    for name, given in (("shards", shards), ("replication_urls", others)):
        if not isinstance(given, Mapping):
            hint = 'Write {"one": "sqlite:///one.db"}.'
            raise InvalidInput(name, given, "a mapping of ids to URLs", hint)
    for shard in others:
        if shard not in shards:
            raise UnknownOption("shard with a replication URL", shard, shards)
    return {shard: ShardRecord(url=url, replication_url=others.get(shard, "")) for shard, url in shards.items()}


def check_shard_id(shard_id: str) -> str:
    """Return a checked id of a shard: letters, digits, `.`, `_` and `-`.

    It has at most 63 bytes, so that any database accepts it.
    """
    check_name("shard id", shard_id)
    if len(shard_id) > MOST_SHARD_BYTES or not _SHARD.fullmatch(shard_id):
        expected = f"letters, digits, '.', '_' and '-', at most {MOST_SHARD_BYTES}"
        raise InvalidInput("shard id", shard_id, expected, "Give the shard a plain short name, such as eu-1.")
    return shard_id


class Fields:
    """The fields of a record. `BadSnapshot` names the first field that is missing, unknown or damaged."""

    def __init__(self, form: object, *names: str) -> None:
        self._found = pairs(form)
        due = {"format", *names}
        if missing := sorted(due - self._found.keys()):
            raise BadSnapshot(f"field {missing[0]}", "(missing)", f"the fields {', '.join(sorted(due))}", _COPY)
        if unknown := sorted(self._found.keys() - due):
            raise BadSnapshot(f"field {unknown[0]}", "(unknown)", f"the fields {', '.join(sorted(due))}", _COPY)

    def read(self, name: str, read: Callable[[object], Record]) -> Record:
        """Return the value of a field."""
        try:
            return read(self._found[name])
        except InvalidInput as error:
            raise BadSnapshot(f"field {name}", self._found[name], error.expected, _COPY) from error


def read_record(key: str, data: bytes, decode: Callable[[bytes], Record]) -> Record:
    """Return the record that the control store has under a key. Each `BadSnapshot` names the key."""
    try:
        return decode(data)
    except InvalidInput as error:
        damage = BadSnapshot("value", None, "one that apportion writes", _COPY)
        damage.problem, damage.field = f"record {key}: {error.problem}", error.field
        raise damage from error


def number(value: object) -> float:
    """Return a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -_BOUND < value < _BOUND:
        refuse(value, "a finite number")
    return float(value)


def encoded(values: dict[str, object]) -> bytes:
    """Return a record as bytes."""
    return json.dumps({"format": FORMAT, **values}, separators=(",", ":")).encode()


def decoded(data: bytes, kind: str) -> object:
    """Return the JSON value that bytes hold. `BadSnapshot` for another format."""
    try:
        form: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadSnapshot(f"record of a {kind}", data, "the JSON that apportion writes", _COPY) from error
    if pairs(form).get("format") != FORMAT:
        raise BadSnapshot(f"format of a {kind} record", pairs(form).get("format"), f"{FORMAT}", "Upgrade this client.")
    return form
