"""Ownership: what is under `own/<resource>`. It is never deleted, and its epoch grows whenever its owner changes."""

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """What `own/<resource>` says: who owns it (None: nobody), in which session, and since which epoch."""

    owner: str | None
    session: int
    epoch: int


def ownership(value: bytes) -> Ownership:
    """Read the value of an ownership record."""
    said = json.loads(value)
    return Ownership(owner=said["owner"], session=said["session"], epoch=said["epoch"])
