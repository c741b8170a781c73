"""Environment: variables that name a member if its caller does not. The downward API of Kubernetes can set them.

APPORTION_MEMBER_ID   metadata.name; the ordinal name of a StatefulSet's pod makes a good static member
APPORTION_ZONE        eu/rack1: the fault domain, outermost first
APPORTION_WEIGHT      2 for a node that takes twice as much
APPORTION_LABELS      app=mailer,tier=batch
"""

import socket
from collections.abc import Mapping
from uuid import uuid4

from apportion.errors import InvalidInput


def member_id(environ: Mapping[str, str]) -> str:
    """Return the id of this process: the given one, or one that no other process has."""
    return environ.get("APPORTION_MEMBER_ID") or f"{socket.gethostname()}-{uuid4().hex[:8]}"


def zone(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the zone of this process; () if none is given."""
    return tuple(filter(None, environ.get("APPORTION_ZONE", "").split("/")))


def weight(environ: Mapping[str, str]) -> float:
    """Return the weight of this process; 1.0 if none is given. Raise `InvalidInput` for a value that is no number."""
    said = environ.get("APPORTION_WEIGHT") or "1"
    try:
        return float(said)
    except ValueError as error:
        raise InvalidInput(
            "APPORTION_WEIGHT", said, "a number", "Write a number such as 2, or leave the variable out."
        ) from error


def labels(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of this process; `InvalidInput` for a text other than name=value,name=value."""
    said = environ.get("APPORTION_LABELS", "")
    pairs = [pair.partition("=") for pair in filter(None, said.split(","))]
    if not all(name and mark for name, mark, _ in pairs):
        raise InvalidInput(
            "APPORTION_LABELS", said, "name=value,name=value", "Leave the variable out if there are no labels."
        )
    return {name: value for name, _, value in pairs}
