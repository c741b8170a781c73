"""Seal: a checksum at the front of a JSON record, over all bytes that follow it.

Promises: a sealed record stays JSON, and the checksum also covers fields that a later release adds. `unsealed` returns
the text that was sealed, or raises `BadSnapshot`.
Refuses: to protect against malice; the checksum is no signature.
"""

from apportion.errors import BadSnapshot
from apportion.groups.view.fields import HINT
from apportion.model.epoch import content_digest

_BEGIN, _END = b'{"checksum":"', b'",'
_DIGITS = 32


def sealed(text: bytes) -> bytes:
    """Return a JSON object, and the bytes that follow it, with the checksum as its first member.

    >>> sealed(b'{"a":1}')
    b'{"checksum":"313ec39438e289057778af1be09684bb","a":1}'
    """
    return _BEGIN + content_digest(text[1:]).encode() + _END + text[1:]


def unsealed(what: str, value: bytes) -> bytes:
    """Return the text that was sealed; `BadSnapshot` names the record if one of its bytes has changed."""
    start = len(_BEGIN) + _DIGITS + len(_END)
    rest = value[start:]
    expected = _BEGIN + content_digest(rest).encode() + _END
    if value[:start] != expected:
        raise BadSnapshot(what, value[:start], f"one that begins with {expected.decode()}", HINT)
    return b"{" + rest
