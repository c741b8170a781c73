"""One example of each kind of snapshot, and forged ones: damaged or nonsensical inside, with a checksum that fits."""

import re
from dataclasses import replace

from xxhash import xxh3_128

from apportion import Assignment, Node, Ring, Table, Topology, decode, plan
from apportion.errors import BadSnapshot
from apportion.model.assignment import Rule
from apportion.model.certificate import Certificate, Proof

TOPOLOGY = Topology(
    [
        Node("db-01", zone=("eu", "rack1")),
        Node("db-02", zone=("eu", "rack2"), weight=2.5),
        Node("é/節点", weight=0),
        Node("x" * 255, zone=("us",), weight=1e9),
    ],
    cluster="orders",
    number=7,
)
TABLE = Table(
    topology=TOPOLOGY,
    hasher="xxh3-64",
    starts=(0, 1, 2**63, 2**64 - 1),
    rows=((0,), (1, 0), (3, 2, 0), (0, 1)),
)
SLOTTED = Table(topology=TOPOLOGY, hasher="crc16", starts=(0, 2**62), rows=((0,), (1,)), slots=16)
BYTES = Table(topology=TOPOLOGY, hasher="bytes", starts=(b"", b"m", b"zebra"), rows=((2,), (0, 1), (3,)))
ASSIGNMENT = Assignment(topology=TOPOLOGY, rows=((0,), (1, 0), (), (3, 2, 0)))
BALANCED = Assignment(
    topology=TOPOLOGY,
    rows=((0,), (1, 3)),
    names=("orders-1", "é"),
    home=((0, 2, 3), (1, 2)),
    down=("é/節点",),
    sizes=(0, 2**63 - 1),
    rule=Rule(replicas=3, spread_level=0, spread="best-effort"),
    certificate=Certificate(
        previous="0" * 32,
        topology=TOPOLOGY.epoch.digest,
        options="f" * 32,
        home=Proof(
            moves=3,
            prices=(0, 1, -2, 2**40),
            least=(0, 1, 0, 1),
            most=(1, 1, 1, 2),
            leader_changes=1,
            leader_prices=(0,) * 4,
        ),
        current=Proof(
            moves=0, prices=(0,) * 4, least=(1,) * 4, most=(2,) * 4, leader_changes=0, leader_prices=(5,) * 4
        ),
    ),
)
_RING = Ring(Topology(["a", "b"], cluster="orders"), vnodes=4)
PLAN = plan(_RING, _RING.on(_RING.topology.add(Node("c", weight=0.5))))

BYTES_PLAN = plan(BYTES, replace(BYTES, starts=(b"", b"m\0", b"zebra"), rows=((2,), (1,), (0,))))

EXAMPLES = {
    "topology": TOPOLOGY,
    "table": TABLE,
    "slotted-table": SLOTTED,
    "assignment": ASSIGNMENT,
    "plan": PLAN,
    "bytes-table": BYTES,
    "bytes-plan": BYTES_PLAN,
    "balanced-assignment": BALANCED,
}


def forged(kind, body, *, columns=b"", version=b"2", cluster=b'""'):
    """Return a snapshot of format version 2 with any columns and body, and the checksum that they ask for."""
    rest = b'"columns":{%b},"body":%b' % (columns, body)
    return _snapshot(kind, version, cluster, _digest(xxh3_128(), kind, version, cluster, rest), rest)


def resealed(data):
    """Return a snapshot that was edited, with the checksum that it now asks for."""
    kind, version, cluster, columns, body = re.fullmatch(
        rb'{"apportion":"(.*?)","format_version":(.*?),"cluster":(".*?"),.*?"columns":{(.*?)},"body":(.*)}\n', data
    ).groups()
    return forged(kind, body, columns=columns, version=version, cluster=cluster)


def _digest(checksum, *parts):
    for part in parts:
        checksum.update(len(part).to_bytes(8, "little") + part)
    return checksum.hexdigest().encode()


def _snapshot(kind, version, cluster, checksum, rest):
    head = b'{"apportion":"%b","format_version":%b,"cluster":%b,"checksum":"%b",' % (kind, version, cluster, checksum)
    return head + rest + b"}\n"


def is_refused(data, kind):
    """Whether reading a snapshot raises the typed error, with a problem and a hint."""
    try:
        decode(data, kind)
    except BadSnapshot as error:
        return bool(error.problem and error.hint)
    return False
