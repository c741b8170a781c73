"""Hash functions by name: bytes to an unsigned integer, the same in every process, release and machine.

`xxh3-64` is the default. `siphash-2-4` takes a secret of 16 bytes and is for keys that strangers choose. Without a
secret, anyone can find keys that all go to one node. `docs/hashers.md` names the systems that use the other hash
functions.

Promises: the functions never change, and stored test vectors check this.
Refuses: Python's `hash()`, which differs between processes.
Source: xxhash, mmh3 and siphash24 (their packages), hashlib and binascii.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import ClassVar, Protocol

from apportion.errors import InvalidInput, UnknownOption
from apportion.model.epoch import content_digest

DEFAULT = "xxh3-64"
SECRET_BYTES = 16

PRESCRIBED_WITH_TWINS = frozenset(("cassandra-murmur3", "crc32", "kafka-murmur2", "md5-first-word", "redis-slot"))

Digest = Callable[[bytes], int]


class Hasher(Protocol):
    """Bytes to an integer of `bits` bits. `label` names it in tables; a secret appears only as a fingerprint."""

    @property
    def label(self) -> str: ...
    @property
    def bits(self) -> int: ...
    @property
    def digest(self) -> Digest: ...
    def __call__(self, data: bytes) -> int: ...


@dataclass(frozen=True, slots=True)
class NamedHasher:
    """A hash function of the list below, with its secret if it needs one.

    `digest` is the function itself, without this wrapper, for callers that hash millions of keys.
    """

    name: str
    key: bytes | None = field(default=None, repr=False)
    bits: int = field(init=False, repr=False, compare=False)
    digest: Digest = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in _MAKERS:
            raise UnknownOption("hasher", self.name, names())
        bits, needs_key, make = _MAKERS[self.name]
        if needs_key != (self.key is not None):
            expected = f"a secret of {SECRET_BYTES} bytes" if needs_key else f"none: {self.name} takes no secret"
            hint = "Pass key= to siphash-2-4, and to it alone."
            raise InvalidInput("hasher key", None if needs_key else "(a secret)", expected, hint)
        if needs_key and (not isinstance(self.key, bytes) or len(self.key) != SECRET_BYTES):
            hint = f"Make one with secrets.token_bytes({SECRET_BYTES})."
            raise InvalidInput("hasher key", "(a secret)", f"{SECRET_BYTES} bytes", hint)
        object.__setattr__(self, "bits", bits)
        object.__setattr__(self, "digest", make(self.key or b""))

    @property
    def label(self) -> str:
        """The name, followed by a fingerprint of the secret if there is one."""
        return self.name if self.key is None else f"{self.name}:{content_digest(b'hasher key', self.key)[:16]}"

    def __call__(self, data: bytes) -> int:
        """Return the hash of `data`, 0 <= hash < 2**bits. O(length)."""
        return self.digest(_checked_data(data))

    def __reduce__(self) -> tuple[type["NamedHasher"], tuple[str, bytes | None]]:
        return NamedHasher, (self.name, self.key)


@dataclass(frozen=True, slots=True)
class FixedHasher:
    """The hash that a layout prescribes. `digest` is a function of a module, so that it pickles by its name."""

    label: str
    bits: int
    digest: Digest = field(repr=False)
    has_twin: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.label, str) or not self.label:
            raise InvalidInput("label of a hasher", self.label, "a name", "Name the hash; tables keep the name.")
        if type(self.bits) is not int or not 1 <= self.bits <= 64:
            raise InvalidInput("bits of a hasher", self.bits, "an int in 1 .. 64", "Declare the bits of the hash.")
        if not callable(self.digest):
            raise InvalidInput(
                "digest of a hasher", self.digest, "a function from bytes to an int", "Write def digest(data): ..."
            )

    def __call__(self, data: bytes) -> int:
        """Return the hash of `data`, 0 <= hash < 2**bits. O(length)."""
        return self.digest(_checked_data(data))


def _checked_data(data: bytes) -> bytes:
    if not isinstance(data, bytes):
        raise InvalidInput("data to hash", data, "bytes", "Encode text first: text.encode().")
    return data


def names() -> tuple[str, ...]:
    """Return the name of every hash function, sorted."""
    return tuple(sorted(_MAKERS))


def get(name: str = DEFAULT, *, key: bytes | None = None) -> NamedHasher:
    """Return a hash function by name; `UnknownOption` names the nearest one.

    >>> hex(get("crc16")(b"123456789")), get("md5")(b"") == int("d41d8cd98f00b204", 16)
    ('0x31c3', True)
    """
    return NamedHasher(name, key)


def resolve(hasher: str | Hasher, *, least_bits: int = 1) -> Hasher:
    """Return the hasher that a caller named or passed; `InvalidInput` if its bits do not suit a placement."""
    found = get(hasher) if isinstance(hasher, str) else hasher
    if not callable(getattr(found, "digest", None)) or type(getattr(found, "bits", None)) is not int:
        raise InvalidInput("hasher", hasher, "a name or a Hasher", "Call hashers.names() for the names.")
    if not least_bits <= found.bits <= 64:
        expected = f"a hash of {'' if least_bits == 64 else f'{least_bits} to '}64 bits; it has {found.bits}"
        hint = "With too few positions, nodes collide; more than 64 bits do not fit. Use another hasher, or Slots."
        raise InvalidInput("hasher", found.label, expected, hint)
    return found


def native_name(hasher: Hasher) -> tuple[str | None, bytes | None]:
    """Return the name and secret by which the native twin knows a hasher; no name if the twin must call it."""
    if type(hasher) is NamedHasher:
        return hasher.name, hasher.key
    has_twin = getattr(hasher, "has_twin", False) and hasher.label in PRESCRIBED_WITH_TWINS
    return (hasher.label, None) if has_twin else (None, None)


def position_of(hasher: Hasher) -> Digest:
    """Return the function from bytes to a position on the circle: the hash, as the leading bits of 64.

    A hash function of your own is checked against the bits that it declares: see `check_hash`.
    """
    digest = hasher.digest if native_name(hasher)[0] else _Checked(hasher.digest, hasher.bits)
    return digest if hasher.bits == 64 else _Shifted(digest, 64 - hasher.bits)


def check_hash(found: int, bits: int) -> int:
    """Return the result of a hash function; raise `InvalidInput` if it is not an int of so many bits."""
    if not isinstance(found, int) or not 0 <= found < 1 << bits:
        hint = "Mask it in the hasher, or declare the bits that it has."
        raise InvalidInput("hash", found, f"an int in 0 .. 2**{bits} - 1", hint)
    return found


@dataclass(frozen=True, slots=True)
class _Checked:
    digest: Digest
    bits: int

    def __call__(self, data: bytes) -> int:
        return check_hash(self.digest(data), self.bits)


@dataclass(frozen=True, slots=True)
class _Shifted:
    digest: Digest
    by: int

    def __call__(self, data: bytes) -> int:
        return self.digest(data) << self.by


def _of(module: str, name: str) -> Callable[[bytes], Digest]:
    """Return the maker of a module's hash function; as everywhere here, the module is loaded at the first use."""
    return lambda _: getattr(import_module(module), name)


def _murmur3(_: bytes) -> Digest:
    from mmh3 import hash64  # noqa: PLC0415

    return lambda data: hash64(data, signed=False)[0]


def _md5(_: bytes) -> Digest:
    from hashlib import md5  # noqa: PLC0415

    return lambda data: int.from_bytes(md5(data, usedforsecurity=False).digest()[:8], "big")


def _sha_256(_: bytes) -> Digest:
    from hashlib import sha256  # noqa: PLC0415

    return lambda data: int.from_bytes(sha256(data, usedforsecurity=False).digest()[:8], "big")


def _siphash_2_4(key: bytes) -> Digest:
    from siphash24 import siphash24  # noqa: PLC0415

    return lambda data: int.from_bytes(siphash24(data, key=key).digest(), "little")


def _crc16(_: bytes) -> Digest:
    from binascii import crc_hqx  # noqa: PLC0415

    return lambda data: crc_hqx(data, 0)


_MAKERS: dict[str, tuple[int, bool, Callable[[bytes], Digest]]] = {
    "crc16": (16, False, _crc16),
    "md5": (64, False, _md5),
    "murmur3": (64, False, _murmur3),
    "sha-256": (64, False, _sha_256),
    "siphash-2-4": (64, True, _siphash_2_4),
    "xxh3-64": (64, False, _of("xxhash", "xxh3_64_intdigest")),
    "xxh64": (64, False, _of("xxhash", "xxh64_intdigest")),
}
