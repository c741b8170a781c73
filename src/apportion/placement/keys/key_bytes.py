"""Keys as bytes: the one rule by which every placement reads a key.

Promises: a `str` is its UTF-8 bytes, the same key as those bytes. An `int` in [-2**63, 2**63) is 8 bytes
little-endian two's complement. A `UUID` is its 36 lower-case characters. A NumPy scalar of an integer, a text or bytes
is read as its Python value. Two Unicode spellings of one letter are two keys; normalise before routing if your keys
have two spellings.
Refuses: values without stable bytes (bool, float, mutable buffers, arbitrary objects), and more than 64 KiB.
"""

from collections.abc import Iterable
from numbers import Integral
from operator import index
from typing import NoReturn
from uuid import UUID

from apportion.errors import InvalidInput
from apportion.model.plan import Key
from apportion.placement.keys.containers import keys_in
from apportion.placement.keys.limits import MAX_KEY_BYTES

__all__ = ["MAX_KEY_BYTES", "key_bytes", "listed"]

# A character takes at most four bytes: up to this length, a string needs no second check.
_SURELY_SHORT = MAX_KEY_BYTES // 4


def key_bytes(key: Key) -> bytes:
    """Return the bytes of a key; raise `InvalidInput` if it has none. O(length).

    >>> key_bytes("é") == "é".encode() == key_bytes("é".encode()), key_bytes(-2)
    (True, b'\\xfe\\xff\\xff\\xff\\xff\\xff\\xff\\xff')
    """
    if type(key) is str and len(key) <= _SURELY_SHORT:
        try:
            return key.encode()
        except UnicodeEncodeError:
            _refuse(key, "a str without unpaired surrogates", "Route the original bytes instead.")
    return _unusual_key_bytes(key)


def listed(keys: Iterable[Key]) -> Iterable[Key]:
    """Return the single keys of any container, in order, to be read once: see `placement.keys.containers`.

    Raises `InvalidInput` for a single str or bytes, because its characters are not meant as many keys. Raises it also
    for an array of values that are not keys.
    """
    if type(keys) is tuple:
        return keys
    # A copy of the list as it is now: reading a key can run code of its class, which could change the list.
    return tuple(keys) if type(keys) is list else keys_in(keys)


def _unusual_key_bytes(key: Key) -> bytes:
    match key:
        case str():
            # Unbound methods, so that a subclass of str cannot answer for the key.
            if str.__len__(key) > MAX_KEY_BYTES:
                _refuse_length(key)
            try:
                data = str.encode(key)
            except UnicodeEncodeError:
                _refuse(key, "a str without unpaired surrogates", "Route the original bytes instead.")
        case bytes():
            data = bytes.__getitem__(key, slice(MAX_KEY_BYTES + 1))
        case bool():
            _refuse(key, "a str, bytes, int or UUID", "Route int(key) or str(key), whichever is meant.")
        case int():
            if not -(2**63) <= key < 2**63:
                _refuse(key, "an int of 64 bits, signed", "Route str(key) for larger numbers.")
            data = int.to_bytes(key, 8, "little", signed=True)
        case UUID():
            data = str(key).encode()
        case _:
            data = _unusual_key_bytes(_int_of(key))
    if len(data) > MAX_KEY_BYTES:
        _refuse_length(key)
    return data


def _int_of(key: object) -> int:
    """Return the Python value of an integer of NumPy, or of another package that registers its integers."""
    # NumPy counts spans of time among its integers, but they have no index.
    if not isinstance(key, Integral) or not hasattr(key, "__index__"):
        hint = "Convert it: bytes(key) for buffers, str(key) or int(key) for numbers."
        _refuse(key, "a str, bytes, int or UUID", hint)
    return index(key)


def _refuse_length(key: Key) -> NoReturn:
    _refuse(key, f"at most {MAX_KEY_BYTES} bytes", "Route a digest of it, say hashlib.sha256(key).digest().")


def _refuse(key: object, expected: str, hint: str) -> NoReturn:
    raise InvalidInput("key", key, expected, hint)


def check_threads(threads: int) -> None:
    """Raise `InvalidInput` for a value that is not a number of threads. The twin decides how many it uses at most."""
    if type(threads) is not int or threads < 1:
        raise InvalidInput("threads", threads, "an int of at least 1", "Leave it out for one.")
