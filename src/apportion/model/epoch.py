"""Epoch and fencing token: the version of a topology or table, and the number of one grant of a resource.

A number alone does not distinguish two histories: two planners may both write version 7. A digest alone does not show
which version is newer. An epoch contains both, and code that acts on an epoch compares both.
"""

from dataclasses import dataclass, field

from apportion.errors import InvalidInput
from apportion.errors.brief import brief

MAX_NUMBER = 2**63 - 1


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """Version `number` with the 128-bit `digest` of its content (32 hexadecimal digits).

    >>> print(Epoch(number=7, digest=content_digest(b"what it holds")))
    7:e855231b
    """

    number: int
    digest: str

    def __post_init__(self) -> None:
        check_number(self.number)
        if not (
            isinstance(self.digest, str) and len(self.digest) == 32 and set(self.digest) <= set("0123456789abcdef")
        ):
            hint = "Take it from a saved table or plan."
            raise InvalidInput("epoch digest", self.digest, "32 hexadecimal digits", hint)

    def __str__(self) -> str:
        return f"{self.number}:{self.digest[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FencingToken:
    """A number that grows with each grant of a resource. The resource may refuse a token older than one it has seen.

    Tokens of one resource are ordered by the incarnation of the store that issued them, then by epoch. The nonce of
    the `holder`, to which the token was granted, is not part of the order. A guard accepts an equal token only from
    the same holder.

    >>> FencingToken(resource="mailers/17", holder="x", incarnation=1, epoch=9) < FencingToken(
    ...     resource="mailers/17", holder="y", incarnation=2, epoch=1
    ... )
    True
    """

    resource: str = field(compare=False)
    holder: str = field(compare=False)
    incarnation: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.incarnation}:{self.epoch}"


def check_number(number: int) -> int:
    """Return `number` if it is valid as the number of an epoch; raise `InvalidInput` otherwise."""
    if type(number) is not int or not 0 <= number <= MAX_NUMBER:
        raise InvalidInput("epoch number", number, f"an int in 0 .. {MAX_NUMBER}", "Count epochs up from 1.")
    return number


def content_digest(*parts: bytes | memoryview) -> str:
    """Return the digest of byte strings and of their lengths, so that different lists have different digests."""
    from hashlib import blake2b  # noqa: PLC0415 - loads OpenSSL, which routing never needs

    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
