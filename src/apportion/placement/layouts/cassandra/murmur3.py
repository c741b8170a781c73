"""MurmurHash3 as in Cassandra: the first half of the 128-bit x64 variant, with the last bytes taken as signed.

The bytes after the last whole block of 16 are combined as signed numbers. So a byte above 0x7f also flips all bits
above its own. If the last bytes of a key are all below 0x80 (as in every ASCII key), its hash is the usual one. For
such a key, `murmur3` calls the `murmur3` of `hashers`. `murmur3_by_rule` is the full rule.

Promises: the same 64 bits as Cassandra for all bytes.
Source: MurmurHash3, A. Appleby 2011; the signed tail is `MurmurHash.hash3_x64_128` of Apache Cassandra.
"""

from functools import cache
from struct import iter_unpack

from apportion.placement.hashers import Digest, get

_MASK = 2**64 - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def murmur3(data: bytes) -> int:
    """Return the hash of `data`, 0 <= hash < 2**64. O(length).

    >>> [murmur3(key.encode()) == get("murmur3")(key.encode()) for key in ("cafe", "café")]
    [True, False]
    """
    if data[len(data) & ~15 :].isascii():
        return _unsigned_tail()(data)
    return murmur3_by_rule(data)


def murmur3_by_rule(data: bytes) -> int:
    """Return the hash of `data` without the help of a package."""
    h1 = h2 = 0
    whole = len(data) & ~15
    for k1, k2 in iter_unpack("<QQ", data[:whole]):
        h1 = (_rotated(h1 ^ _mixed_1(k1), 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 = (_rotated(h2 ^ _mixed_2(k2), 31) + h1) * 5 + 0x38495AB5 & _MASK
    h1 ^= _mixed_1(_signed_word(data[whole : whole + 8])) ^ len(data)
    h2 ^= _mixed_2(_signed_word(data[whole + 8 :])) ^ len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return _finished(h1) + _finished(h2) & _MASK


@cache
def _unsigned_tail() -> Digest:
    """Return the hash function of the package, which is loaded at its first use."""
    return get("murmur3").digest


def _signed_word(tail: bytes) -> int:
    """Return up to eight bytes as a little-endian word, each byte widened with its sign before it is shifted."""
    word = 0
    for place, byte in enumerate(tail):
        word ^= ((byte ^ 0x80) - 0x80) << 8 * place
    return word & _MASK


def _mixed_1(word: int) -> int:
    return _rotated(word * _C1 & _MASK, 31) * _C2 & _MASK


def _mixed_2(word: int) -> int:
    return _rotated(word * _C2 & _MASK, 33) * _C1 & _MASK


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & _MASK


def _finished(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _MASK
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return word ^ word >> 33
