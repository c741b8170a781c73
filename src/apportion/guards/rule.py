"""The rule of every guard, and tokens as text: pure functions, to build guards and to check them.

A member that paused cannot know that another member took over; only the resource that it writes to can know. So a
resource keeps the token of the last accepted write. It takes a newer token, or an equal one from the same holder.

Promises: the tokens that `decide` accepts for a resource never go back, and no token is accepted from two holders.
The text of a token sorts as tokens do, and is printable ASCII without blanks. Reading a text gives the same token, or
is refused.
Refuses: to keep anything; the caller keeps the returned token together with the written data.
Source: Kleppmann 2016, "How to do distributed locking", and the fencing of leases in Chubby (Burrows 2006, 2.4).
"""

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from apportion.errors import Fenced, InvalidInput, shown
from apportion.model.epoch import FencingToken

MAX_NAME_BYTES: Final = 1_024
MAX_NUMBER: Final = 2**64 - 1
POSITION_CHARACTERS: Final = 41
_LONGEST_TEXT = POSITION_CHARACTERS + 2 * (1 + 3 * MAX_NAME_BYTES)
_TEXT = re.compile(r"([0-9]{20}):([0-9]{20});([!-:<-~]+);([!-:<-~]+)")


def decide(kept: FencingToken | None, token: FencingToken) -> FencingToken:
    """Return the token to keep if `token` may write after `kept`; raise `Fenced` if `token` may not write.

    >>> old = FencingToken(resource="mailers/17", holder="x", incarnation=1, epoch=7)
    >>> new = FencingToken(resource="mailers/17", holder="y", incarnation=1, epoch=8)
    >>> str(decide(decide(None, old), new))
    '1:8'
    >>> decide(new, old)
    Traceback (most recent call last):
        ...
    apportion.errors.Fenced: mailers/17 belongs to another holder: token 1:7 came after 1:8 had been accepted.
    Nothing was written. Stop this work: the holder of the newer token does it.
    """
    token = valid(token)
    if kept is None:
        return token
    kept = valid(kept)
    if kept.resource != token.resource:
        expected = f"a token of {shown(kept.resource)}"
        raise InvalidInput("resource", token.resource, expected, "Keep one token for each resource.")
    if kept < token or (kept == token and kept.holder == token.holder):
        return token
    raise Fenced(token.resource, token, kept)


def to_text(token: FencingToken) -> str:
    """Write a token as text, for a header, for metadata, for a database that compares text.

    The first 41 characters give the order. The holder and the resource follow. Characters other than the unreserved
    ones of URLs and the slash are percent-encoded.

    >>> to_text(FencingToken(resource="mailers/17", holder="x", incarnation=1, epoch=7))
    '00000000000000000001:00000000000000000007;x;mailers/17'
    """
    token = valid(token)
    return f"{position(token)};{quote(token.holder)};{quote(token.resource)}"


def from_text(text: str) -> FencingToken:
    """Read a token from text that came from outside; `InvalidInput` for text that `to_text` would not write exactly."""
    found = _TEXT.fullmatch(text) if isinstance(text, str) and len(text) <= _LONGEST_TEXT else None
    if found is None:
        raise _unreadable(text)
    try:
        holder, resource = (unquote_to_bytes(part).decode() for part in found.groups()[2:])
        token = valid(FencingToken(resource=resource, holder=holder, incarnation=int(found[1]), epoch=int(found[2])))
    except ValueError as error:  # bytes that are not UTF-8, or a token that `valid` refuses
        raise _unreadable(text) from error
    if to_text(token) != text:
        raise _unreadable(text)
    return token


def position(token: FencingToken) -> str:
    """Write a token's place in the order as text with a fixed number of digits, so that texts sort as tokens do.

    It is text because the largest incarnation does not fit a signed integer of 64 bits, or a number of Lua or JSON.
    """
    return f"{token.incarnation:020}:{token.epoch:020}"


def valid(token: FencingToken) -> FencingToken:
    """Return a token that every guard can keep; raise `InvalidInput` for anything else."""
    if not isinstance(token, FencingToken):
        hint = "Pass the token that group.hold(partition) gives, or that of group.owned[partition]."
        raise InvalidInput("token", token, "a FencingToken", hint)
    for field, number in (("incarnation", token.incarnation), ("epoch", token.epoch)):
        if type(number) is not int or not 0 <= number <= MAX_NUMBER:
            raise InvalidInput(field, number, "an int in 0 .. 2**64 - 1", "Use the token as it was granted.")
    _require_name("resource", token.resource)
    _require_name("holder", token.holder)
    return token


def _require_name(field: str, name: str) -> None:
    expected, hint = f"1 to {MAX_NAME_BYTES} bytes of UTF-8 without NUL", "Shorten it, for example to its digest."
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME_BYTES or "\0" in name:
        raise InvalidInput(field, name, expected, hint)
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(field, name, expected, "Fix the code that made it, or decode with another codec.") from error
    if size > MAX_NAME_BYTES:
        raise InvalidInput(field, name, expected, hint)


def _unreadable(text: object) -> InvalidInput:
    return InvalidInput("token", text, "the text of a token", "Send the text of guards.to_text(token), unchanged.")
