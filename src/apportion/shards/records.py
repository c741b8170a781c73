"""Records of a set in the control store: the set itself, and the place of each shard.

    shards/<set>/set           format, number of hash slots, hasher; written once
    shards/<set>/shard/<id>    URL without a password, weight, zone, timeline of a server of PostgreSQL
    shards/<set>/moving        the slots of each move that is under way; `mover.records` reads it
    shards/<set>/move/<id>     a move; `mover.records` reads it
    table/<set>/…              the table of the slots, written by the publisher of tables

Promises: a record of an unknown format, or with a damaged field, raises `BadSnapshot`. No field is guessed.
Refuses: passwords in URLs. Write `${NAME}`, and each process fills in the value from its environment.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from apportion.errors import BadSnapshot, InvalidInput
from apportion.model.codec.parsing import integer, items, pairs, refuse, text
from apportion.model.topology import Node, check_name
from apportion.placement.hashers import DEFAULT
from apportion.shards.slots import check_hash_slots
from apportion.shards.timeline.timeline import Timeline
from apportion.tables.layout import TableKeys

FORMAT = 1
SHARDS = "shards/"
MOST_SHARD_BYTES = 63
_PASSWORD = re.compile(r"://[^/@]*:(?!\$\{\w+\}@)[^/]*@|[?&]password=(?!\$\{\w+\}(?:&|$))")
_NAME = re.compile(r"\$\{(\w+)\}")
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

    `timeline` is the noted timeline of its server. It is None for a file, and until a connection has noted it.
    """

    url: str
    weight: float = 1.0
    zone: tuple[str, ...] = ()
    timeline: Timeline | None = None

    def __post_init__(self) -> None:
        if _PASSWORD.search(self.url):
            hint = "Write postgresql://user:${PASSWORD}@host/database; each process fills it in from its environment."
            raise InvalidInput("URL of a shard", "(not shown)", "one without a password", hint)

    def node(self, shard_id: str) -> Node:
        """Return the shard as a node of the set's topology."""
        return Node(check_shard_id(shard_id), weight=self.weight, zone=self.zone)

    def address(self) -> str:
        """Return the URL with the values of the environment.

        `InvalidInput` for a variable that is not set, and for a text that is no URL. `InvalidInput` also for a value
        with an `@`: the URL would be cut there.
        """
        for match in _NAME.finditer(self.url.rpartition("@")[0]):
            if "@" in _from_environment(match):
                expected = "a value with %40 in place of @"
                hint = "Percent-encode it: python -c 'from urllib.parse import quote; print(quote(input(), safe=\"\"))'"
                raise InvalidInput(f"environment variable {match[1]}", "(not shown)", expected, hint)
        address = _NAME.sub(_from_environment, self.url)
        try:
            make_url(address)
        except (ArgumentError, ValueError):  # The error shows parts of the text, which may be secrets.
            hint = "Look at the record: apportion shards status URL SET. Check the variables that it names."
            raise InvalidInput("URL of a shard", "(not shown)", "dialect://user@host:port/database", hint) from None
        return address

    def encode(self) -> bytes:
        """Return the record as bytes."""
        noted = {} if self.timeline is None else {"timeline": f"{self.timeline}"}
        return encoded({"url": self.url, "weight": self.weight, "zone": list(self.zone), **noted})

    @classmethod
    def decode(cls, data: bytes) -> "ShardRecord":
        """Return the record that bytes hold."""
        form = decoded(data, "shard")
        is_noted = "timeline" in pairs(form)
        fields = Fields(form, "url", "weight", "zone", *(["timeline"] if is_noted else []))
        zone = fields.read("zone", lambda value: tuple(map(text, items(value))))
        timeline = fields.read("timeline", Timeline.of) if is_noted else None
        record = cls(url=fields.read("url", text), weight=fields.read("weight", number), zone=zone, timeline=timeline)
        Node("any", weight=record.weight, zone=record.zone)  # refuses a weight or zone that a node cannot have
        return record


def records_of(shards: Mapping[str, str]) -> dict[str, ShardRecord]:
    """Return a record for each URL."""
    if not isinstance(shards, Mapping):
        hint = 'Write {"one": "sqlite:///one.db"}.'
        raise InvalidInput("shards", shards, "a mapping of ids to URLs", hint)
    return {shard: ShardRecord(url=address) for shard, address in shards.items()}


def check_shard_id(shard_id: str) -> str:
    """Return a checked id of a shard: letters, digits, `.`, `_` and `-`.

    It has at most 63 bytes, so that any database accepts it.
    """
    check_name("shard id", shard_id)
    if len(shard_id) > MOST_SHARD_BYTES or not _SHARD.fullmatch(shard_id):
        expected = f"letters, digits, '.', '_' and '-', at most {MOST_SHARD_BYTES}"
        raise InvalidInput("shard id", shard_id, expected, "Give the shard a plain short name, such as eu-1.")
    return shard_id


def _from_environment(match: re.Match[str]) -> str:
    value = os.environ.get(match[1])
    if value is None:
        raise InvalidInput(f"environment variable {match[1]}", None, "a value for a shard's URL", "Set it, and retry.")
    return value


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
