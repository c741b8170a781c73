"""Epoch and fencing token: which version of a topology or table this is, and which grant of a resource.

A number alone cannot tell two histories apart (two planners both write version 7), a digest alone cannot
tell older from newer; an epoch is both, and whoever acts on one compares both.
"""

from dataclasses import dataclass, field

from apportion.errors import InvalidInput

MAX_NUMBER = 2**63 - 1


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
            raise InvalidInput(
                "epoch digest", self.digest, "32 hexadecimal digits", "Take it from a saved table or plan."
            )

    def __str__(self) -> str:
        return f"{self.number}:{self.digest[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FencingToken:
    """A number that grows with each grant of a resource: what is written to may refuse an older one than it has seen.

    Tokens of one resource are ordered by the life of the store that issued them, then by epoch. The nonce of the
    `holder`, whom it was granted to, is no part of the order: a guard takes an equal token from the same holder alone.

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
    """Return `number` if it can number an epoch; raise `InvalidInput` otherwise."""
    if type(number) is not int or not 0 <= number <= MAX_NUMBER:
        raise InvalidInput("epoch number", number, f"an int in 0 .. {MAX_NUMBER}", "Count epochs up from 1.")
    return number


def content_digest(*parts: bytes | memoryview) -> str:
    """Digest byte strings, each with its length, so that no two lists of parts look alike."""
    from hashlib import blake2b  # noqa: PLC0415 - loads OpenSSL, which a process that only routes never needs

    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
