"""Calls: the inputs and outputs that the machines of a put and of a get share.

A machine takes one input at a time and returns the requests to send. It never performs them. Its `outcome` is None
until the call has ended; later inputs change nothing.
"""

from dataclasses import dataclass

from apportion.errors import ApportionError
from apportion.shards.replicas.entry import NodeEntry
from apportion.shards.replicas.level import Needs
from apportion.shards.replicas.nodes.api import EntryAnswer, ReadAnswer
from apportion.shards.replicas.version import EntryVersion


@dataclass(frozen=True, slots=True)
class SendEntry:
    """Request: send an entry to a node, as a put or as a copy."""

    node: str
    entry: NodeEntry
    copy: bool = False


@dataclass(frozen=True, slots=True)
class ReadKey:
    """Request: read a key on a node."""

    node: str
    key: bytes


Request = SendEntry | ReadKey


@dataclass(frozen=True, slots=True)
class EntryAnswered:
    """Input: a node has answered an entry that was sent with this version. None: the node gave no answer."""

    node: str
    version: EntryVersion
    answer: EntryAnswer | None


@dataclass(frozen=True, slots=True)
class ReadAnswered:
    """Input: a node has answered a read. None: the node gave no answer."""

    node: str
    answer: ReadAnswer | None


@dataclass(frozen=True, slots=True)
class NodesAreSlow:
    """Input: the answers take longer than usual, so a get may ask a further node."""


@dataclass(frozen=True, slots=True)
class TimeIsUp:
    """Input: the caller waits no longer."""


Input = EntryAnswered | ReadAnswered | NodesAreSlow | TimeIsUp


@dataclass(frozen=True, slots=True)
class PutDone:
    """Outcome: enough nodes hold the write under this version."""

    version: EntryVersion


@dataclass(frozen=True, slots=True)
class GetDone:
    """Outcome: the newest write of the key that a get may show (None: nothing), and the version that it shows."""

    entry: NodeEntry | None
    version: EntryVersion


@dataclass(frozen=True, slots=True)
class TableIsStale:
    """Outcome: a node was fenced with this higher number. Read the table again, then begin the call again."""

    node: str
    number: int


@dataclass(frozen=True, slots=True)
class CallFailed:
    """Outcome: the call ends with an error."""

    error: ApportionError


Outcome = PutDone | GetDone | TableIsStale | CallFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRoute:
    """The nodes of a key for one call: those to send to, nearest first, and the needs of writes and of reads."""

    nodes: tuple[str, ...]
    writes: Needs
    reads: Needs
