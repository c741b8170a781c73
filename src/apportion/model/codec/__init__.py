"""Codec: values as bytes that can be stored, sent, and read by every later release; see `envelope`."""

from apportion.model.codec.envelope import (
    FORMAT_VERSION,
    MAX_BYTES,
    body_in,
    check_owners,
    decode,
    encode,
    naming,
    unsealed,
    wrapped,
)

__all__ = [
    "FORMAT_VERSION",
    "MAX_BYTES",
    "body_in",
    "check_owners",
    "decode",
    "encode",
    "naming",
    "unsealed",
    "wrapped",
]
