"""One example of each kind of snapshot, and forged ones: damaged or nonsensical inside, with a checksum that fits."""

from hashlib import blake2b

from apportion import Assignment, Node, Ring, Table, Topology, plan

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
ASSIGNMENT = Assignment(topology=TOPOLOGY, rows=((0,), (1, 0), (), (3, 2, 0)))
_RING = Ring(Topology(["a", "b"], cluster="orders"), vnodes=4)
PLAN = plan(_RING, _RING.on(_RING.topology.add(Node("c", weight=0.5))))

EXAMPLES = {"topology": TOPOLOGY, "table": TABLE, "slotted-table": SLOTTED, "assignment": ASSIGNMENT, "plan": PLAN}


def forged(kind, body, *, version=b"1", cluster=b'""'):
    """Return a snapshot with any body, and the checksum that it asks for."""
    checksum = blake2b(digest_size=16)
    for part in (kind, version, cluster, body):
        checksum.update(len(part).to_bytes(8, "little") + part)
    head = b'{"apportion":"%b","format_version":%b,"cluster":%b,"checksum":"%b","body":' % (
        kind, version, cluster, checksum.hexdigest().encode(),
    )  # fmt: skip
    return head + body + b"}\n"
