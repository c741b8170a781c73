"""Bad input is refused with a typed error that names the field, shows the value cut, and says what to do; or it means
something, and then what it means is written here.

The numbers are those of the project's list of bad inputs. Keys (1 to 12) are in `tests/contracts/test_placements.py`
for every placement, snapshots (38 to 44) in `tests/model/test_codec.py` byte by byte; here each case stands once, with
a budget of memory.
"""

import pickle
import tracemalloc

import pytest

from apportion import (
    ApportionError,
    Assignment,
    Jump,
    KeyRange,
    Modulo,
    Node,
    Rendezvous,
    Ring,
    Slots,
    Table,
    Topology,
    balance,
    decode,
    encode,
    errors,
    hashers,
    placement,
    plan,
)
from apportion.errors import (
    BadRange,
    BadSnapshot,
    BadWeight,
    DuplicateNode,
    InvalidInput,
    NoNodes,
    NotEnoughNodes,
    UnknownNode,
    UnknownOption,
)
from tests.model.snapshots import forged

MEBIBYTE = 2**20
BUDGET = 64 * MEBIBYTE
RING = Ring(["a", "b", "c"])
ZONED = Ring([Node("a", zone=("eu",)), Node("b", zone=("eu",)), Node("c", zone=("us",))])
TOPOLOGY = Topology(["a", "b"], cluster="orders")
SAVED = encode(TOPOLOGY)
SECRET_URL = "postgres://app:hunter2@db/orders"


class Stranger:
    """Has no stable text."""

    def __repr__(self):
        raise AssertionError("the repr of a foreign object was asked for")

    __str__ = __repr__


def cyclic_zone():
    zone = ["eu"]
    zone.append(zone)
    return zone


def ranges(*bounds):
    return [(KeyRange(start, end), ("a",)) for start, end in bounds]


def table_of(*bounds):
    return Table.from_ranges(ranges(*bounds), topology=Topology(["a"]), hasher="xxh3-64")


def forever():
    while True:
        yield "a"


def nodes_without_end():
    number = 0
    while True:
        yield f"n{number}"
        number += 1


REFUSED = [
    ("4 half a surrogate", lambda: RING.route("\ud800"), InvalidInput, "key"),
    ("6 key of 64 KiB + 1", lambda: RING.route(b"x" * 65_537), InvalidInput, "key"),
    ("6 key of 1 MiB", lambda: RING.route("x" * MEBIBYTE), InvalidInput, "key"),
    ("7 True", lambda: RING.route(True), InvalidInput, "key"),
    ("7 1.0", lambda: RING.route(1.0), InvalidInput, "key"),
    ("8 -0.0", lambda: RING.route(-0.0), InvalidInput, "key"),
    ("8 NaN", lambda: RING.route(float("nan")), InvalidInput, "key"),
    ("9 bytearray", lambda: RING.route(bytearray(b"k")), InvalidInput, "key"),
    ("11 2**63", lambda: RING.route(2**63), InvalidInput, "key"),
    ("11 an int of 10**5 digits", lambda: RING.route(10**100_000), InvalidInput, "key"),
    ("12 an object", lambda: RING.route(Stranger()), InvalidInput, "key"),
    ("18 range b to a", lambda: KeyRange("b", "a"), BadRange, "range start"),
    ("18 range 5 to 3", lambda: KeyRange(5, 3), BadRange, "range end"),
    ("19 overlap", lambda: table_of((0, 6), (5, 2**64)), BadRange, "range start"),
    ("20 gap", lambda: table_of((0, 5), (6, 2**64)), BadRange, "range start"),
    ("20 gap at the end", lambda: table_of((0, 5)), BadRange, "range start"),
    ("21 empty range", lambda: KeyRange(5, 5), BadRange, "range end"),
    ("22 beyond the largest key", lambda: KeyRange(0, 2**64 + 1), BadRange, "range end"),
    ("23 bounds of mixed types", lambda: KeyRange(0, b"m"), BadRange, "range end"),
    ("23 positions that are keys", lambda: RING.table().owners("k"), BadRange, "position"),
    *(("24 zero nodes", lambda kind=kind: kind([]), NoNodes, None) for kind in (Ring, Rendezvous, Jump, Modulo)),
    ("24 zero nodes", lambda: balance.slots(Topology()), NoNodes, None),
    ("25 a name twice", lambda: Topology(["a", "b", "a"]), DuplicateNode, "node id"),
    ("25 without end", lambda: Topology(forever()), InvalidInput, "nodes"),
    ("26 line break", lambda: Node("a\n"), InvalidInput, "node id"),
    ("26 right-to-left mark", lambda: Node("a\u200f"), InvalidInput, "node id"),
    ("26 right-to-left override", lambda: Node("\u202eexe.a"), InvalidInput, "node id"),
    ("26 NUL", lambda: Node("a\0"), InvalidInput, "node id"),
    ("31 weight NaN", lambda: Node("a", weight=float("nan")), BadWeight, "weight of node 'a'"),
    ("31 weight inf", lambda: Node("a", weight=float("inf")), BadWeight, "weight of node 'a'"),
    ("31 weight -1", lambda: Node("a", weight=-1), BadWeight, "weight of node 'a'"),
    ("31 weight 1e-300", lambda: Node("a", weight=1e-300), BadWeight, "weight of node 'a'"),
    ("31 weight 1e308", lambda: Node("a", weight=1e308), BadWeight, "weight of node 'a'"),
    ("31 weight of 10**5 digits", lambda: Node("a", weight=10**100_000), BadWeight, "weight of node 'a'"),
    ("31 weight NaN later", lambda: TOPOLOGY.reweight("a", float("nan")), BadWeight, "weight of node 'a'"),
    ("31 all weights 0", lambda: Ring([Node("a", weight=0), Node("b", weight=0)]), NoNodes, None),
    ("31 all drained", lambda: RING.on(RING.topology.drain("a", "b", "c")), NoNodes, None),
    ("32 vnodes 0", lambda: Ring(["a"], vnodes=0), InvalidInput, "vnodes"),
    ("32 vnodes -1", lambda: Ring(["a"], vnodes=-1), InvalidInput, "vnodes"),
    ("32 vnodes 10**9", lambda: Ring(["a"], vnodes=10**9), InvalidInput, "vnodes"),
    ("32 tokens of a weight", lambda: Ring([Node("a", weight=1e9)]), InvalidInput, "tokens of the ring"),
    ("32 slots 0", lambda: balance.slots(TOPOLOGY, count=0), InvalidInput, "count of slots"),
    ("32 slots 10**9", lambda: balance.slots(TOPOLOGY, count=10**9), InvalidInput, "count of slots"),
    ("33 replicas 0", lambda: RING.preference("k", 0), InvalidInput, "count of nodes"),
    ("33 replicas 0 of a table", lambda: RING.table(0), InvalidInput, "count of nodes"),
    ("33 replicas 0 of a plan", lambda: plan(RING, RING, replicas=0), InvalidInput, "count of nodes"),
    ("33 more replicas than nodes", lambda: RING.preference("k", 4), NotEnoughNodes, None),
    ("33 more replicas than zones", lambda: ZONED.preference("k", 3), NotEnoughNodes, None),
    ("33 10**18 replicas", lambda: RING.table(10**18), NotEnoughNodes, None),
    ("35 a zone within itself", lambda: Node("a", zone=cyclic_zone()), InvalidInput, "zone level"),
    ("36 10**5 + 1 nodes", lambda: Topology(f"n{number}" for number in range(100_001)), InvalidInput, "nodes"),
    ("36 nodes without end", lambda: Ring(nodes_without_end()), InvalidInput, "nodes"),
    ("36 nodes without end", lambda: Jump(nodes_without_end()), InvalidInput, "nodes"),
    ("37 name of 10 MiB", lambda: Node("x" * 10 * MEBIBYTE), InvalidInput, "node id"),
    ("37 zone of 10 MiB", lambda: Node("a", zone=("x" * 10 * MEBIBYTE,)), InvalidInput, "zone level"),
    ("37 zone of 10**6 levels", lambda: Node("a", zone=("x",) * 10**6), InvalidInput, "zone levels"),
    ("37 cluster of 10 MiB", lambda: Topology(["a"], cluster="x" * 10 * MEBIBYTE), InvalidInput, "cluster"),
    ("37 unknown node of 10 MiB", lambda: TOPOLOGY["x" * 10 * MEBIBYTE], UnknownNode, "node id"),
    ("37 hasher of 10 MiB", lambda: hashers.get("x" * 10 * MEBIBYTE), UnknownOption, "hasher"),
    ("37 placement of 10 MiB", lambda: placement.get("x" * 10 * MEBIBYTE), UnknownOption, "placement"),
    ("38 cut", lambda: decode(SAVED[:-1], Topology), BadSnapshot, "checksum"),
    ("38 empty", lambda: decode(b"", Topology), BadSnapshot, "snapshot"),
    ("39 a bit turned", lambda: decode(SAVED.replace(b'"a"', b'"c"'), Topology), BadSnapshot, "checksum"),
    ("40 version 0", lambda: decode(forged(b"topology", b"{}", version=b"0"), Topology), BadSnapshot, "format_version"),
    ("40 version 3", lambda: decode(forged(b"topology", b"{}", version=b"3"), Topology), BadSnapshot, "format_version"),
    (
        "40 version 2**64",
        lambda: decode(forged(b"topology", b"{}", version=b"%d" % 2**64), Topology),
        BadSnapshot,
        "format_version",
    ),
    ("41 NaN", lambda: decode(forged(b"topology", b"NaN"), Topology), BadSnapshot, "snapshot number"),
    ("41 1e999", lambda: decode(forged(b"topology", b"1e999"), Topology), BadSnapshot, "snapshot number"),
    ("41 a key twice", lambda: decode(forged(b"topology", b'{"a":1,"a":1}'), Topology), BadSnapshot, "snapshot keys"),
    ("41 nesting", lambda: decode(forged(b"topology", b"[" * 10**5), Topology), BadSnapshot, "snapshot body"),
    ("41 4301 digits", lambda: decode(forged(b"topology", b"9" * 4301), Topology), BadSnapshot, "snapshot body"),
    ("44 another cluster", lambda: decode(SAVED, Topology, cluster="payments"), BadSnapshot, "cluster"),
    ("44 another cluster", lambda: plan(Ring(TOPOLOGY), RING), InvalidInput, "cluster"),
    ("44 another kind", lambda: decode(SAVED, Assignment), BadSnapshot, "snapshot kind"),
    ("48 URL in a name", lambda: Node(SECRET_URL), InvalidInput, "node id"),
    ("48 URL in a name as bytes", lambda: Node(SECRET_URL.encode()), InvalidInput, "node id"),
    ("48 URL in a zone", lambda: Node("a", zone=(SECRET_URL,)), InvalidInput, "zone level"),
    ("48 URL as a cluster", lambda: Topology(["a"], cluster=SECRET_URL), InvalidInput, "cluster"),
    ("48 URL as an unknown node", lambda: TOPOLOGY.without(SECRET_URL), UnknownNode, "node id"),
    ("48 URL as a hasher", lambda: hashers.get(SECRET_URL), UnknownOption, "hasher"),
    ("48 URL as a placement", lambda: placement.get(SECRET_URL), UnknownOption, "placement"),
    ("48 URL as a partition", lambda: Slots(balance.slots(TOPOLOGY)).assignment[SECRET_URL], InvalidInput, "partition"),
    ("48 URL in a long key", lambda: RING.route(SECRET_URL + "x" * 65_536), InvalidInput, "key"),
    ("48 URL in a long key as bytes", lambda: RING.route(SECRET_URL.encode() + b"x" * 65_536), InvalidInput, "key"),
    ("48 URL of 5000 characters", lambda: Node("postgres://app:hunter2" + "x" * 5000 + "@db"), InvalidInput, "node id"),
    ("48 URL with an @ in it", lambda: Node("postgres://a:@hunter2" + "x" * 5000 + "@db"), InvalidInput, "node id"),
    ("48 password of odd signs", lambda: Node("postgres://app:hunter2%@ /:x@db"), InvalidInput, "node id"),
]


@pytest.mark.parametrize(
    ("call", "kind", "field"), [case[1:] for case in REFUSED], ids=[f"{n}-{case[0]}" for n, case in enumerate(REFUSED)]
)
def test_bad_input_is_refused_by_a_typed_error_that_helps(call, kind, field):
    error, extra = traced_refusal_of(call)
    assert kind is type(error)
    assert all((error.problem, error.hint))
    assert "expected " in error.problem or field is None
    assert field is None or error.field.startswith(field)
    assert len(str(error)) < 600
    assert "hunter2" not in f"{error} {error!r} {error.args} {vars(error)}"
    assert extra < BUDGET, f"{extra / MEBIBYTE:.0f} MiB"


def refusal_of(call):
    """Return the error of a call."""
    with pytest.raises(ApportionError) as caught:
        call()
    return caught.value


def traced_refusal_of(call):
    """Return the error of a call, and the most memory in bytes that was in use during it beyond that before it."""
    tracemalloc.start()
    try:
        return refusal_of(call), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_every_refusal_survives_pickling_whatever_the_value_was():
    for _, call, _, _ in REFUSED:
        error = refusal_of(call)
        back = pickle.loads(pickle.dumps(error))
        assert (type(error), str(error), repr(error), vars(error)) == (type(back), str(back), repr(back), vars(back))


def test_a_key_of_2_gibibytes_and_one_byte_is_refused_without_a_copy():
    # Zero bytes that are never touched cost no memory: the kernel hands them out when they are read.
    key = bytes(2**31 + 1)
    error, extra = traced_refusal_of(lambda: RING.route(key))
    assert "2147483649 long" in str(error)
    assert extra < MEBIBYTE


def test_a_str_of_256_mebibytes_is_refused_without_a_copy():
    key = "x" * 2**28
    error, extra = traced_refusal_of(lambda: RING.route(key))
    assert "268435456 long" in str(error)
    assert extra < MEBIBYTE


def test_a_refused_change_leaves_everything_as_it_was():
    before = (TOPOLOGY.nodes, TOPOLOGY.number, RING.route_many(map(str, range(100))))
    for _, call, _, _ in REFUSED:
        refusal_of(call)
    assert before == (TOPOLOGY.nodes, TOPOLOGY.number, RING.route_many(map(str, range(100))))


ACCEPTED = {
    "1 an empty key is a key": lambda: RING.route("") in "abc",
    "2 an empty str is the same key as empty bytes": lambda: RING.route("") == RING.route(b""),
    "3 NUL is a character like others": lambda: RING.explain("a\0").hash != RING.explain("a").hash,
    "5 two spellings of a letter are two keys": lambda: RING.explain("é").hash != RING.explain("e\u0301").hash,
    "7 the int 1 is not the str '1'": lambda: RING.explain(1).hash != RING.explain("1").hash,
    "11 a negative int is a key": lambda: RING.explain(-1).hash != RING.explain(2**63 - 1).hash,
    "13 braces mean nothing here": lambda: RING.explain("{}a").hash != RING.explain("a").hash,
    "17 nor do several": lambda: RING.explain("{a}{b}").hash != RING.explain("a").hash,
    "22 the end of the circle is a bound": lambda: KeyRange(2**64 - 1, 2**64).width == 1,
    "24 a topology may be empty": lambda: len(Topology()) == 0,
    "26 case matters": lambda: Topology(["A", "a"]).ids == ("A", "a"),
    "26 so does the spelling": lambda: len(Topology(["é", "e\u0301"])) == 2,
    "27 a name is no HTML": lambda: Node("<img src=x onerror=alert(1)>").id == "<img src=x onerror=alert(1)>",
    "28 nor SQL": lambda: Node('x"; DROP TABLE t; --').id == 'x"; DROP TABLE t; --',
    "29 nor a path": lambda: Node("../../etc/passwd").id == "../../etc/passwd",
    "30 names differ after 63 bytes": lambda: len(Topology(["x" * 63 + "a", "x" * 63 + "b"])) == 2,
    "31 weight 0 drains": lambda: set(Ring(["a", Node("b", weight=0)]).route_many(map(str, range(99)))) == {"a"},
    "34 a node without a zone stands alone": lambda: len(Ring([Node("a", zone=("x",)), "b"]).preference("k", 2)) == 2,
    "35 a path may repeat a level": lambda: Node("a", zone=("eu", "eu")).zone == ("eu", "eu"),
    "48 a URL without a password is a name": lambda: Node("postgres://db/orders").id == "postgres://db/orders",
}


@pytest.mark.parametrize("holds", ACCEPTED.values(), ids=ACCEPTED)
def test_odd_input_means_what_the_documentation_says(holds):
    assert holds()


def test_ten_to_the_five_nodes_fit_into_the_budget():
    names = [f"node-{number:06}" for number in range(100_000)]
    tracemalloc.start()
    topology = Topology(names)
    extra = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 100_000 == len(topology)
    assert extra < BUDGET, f"{extra / MEBIBYTE:.0f} MiB"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (SECRET_URL, "'postgres://***@db/orders'"),
        (SECRET_URL.encode(), "b'postgres://***@db/orders'"),
        ("postgres://app:hun@ter:2/@db", "'postgres://***@db'"),
        ("see http://a and postgres://app:hunter2@db", "'see http://***@db'"),
        ("postgres://" + "hunter2" * 1000, "'postgres://***'"),
        ("a\nb\u202e\x1b[31m", "'a\\nb\\u202e\\x1b[31m'"),
        ("x" * 100, "'" + "x" * 59 + "… (100 long)"),
        (b"\x00" * 100, "b'" + "\\x00" * 14 + "\\x… (100 long)"),
        (2**127, str(2**127)),
        (10**5000, "an int of 16610 bits"),
        (None, "None"),
        (True, "True"),
        (1.5, "1.5"),
        (Stranger(), "a Stranger"),
        ([SECRET_URL], "a list"),
    ],
    ids=range(15),
)
def test_a_foreign_value_is_shown_in_one_short_safe_line(value, expected):
    assert expected == errors.shown(value)


def test_the_tree_of_errors_says_whose_fault_it_is():
    assert issubclass(errors.InvalidInput, ValueError)
    assert issubclass(errors.Bug, AssertionError)
    retryable = {kind for kind in vars(errors).values() if isinstance(kind, type) and getattr(kind, "retryable", False)}
    outdated = {errors.Outdated, errors.StaleEpoch, errors.LeaseLost, errors.Compacted}
    outdated |= {errors.StaleRoute, errors.Fenced, errors.NotOwner, errors.ClaimLost}
    lost = {errors.Conflict, errors.DuplicateMember, errors.Unavailable, errors.StoreUnavailable}
    lost |= {errors.OutcomeUnknown, errors.TimedOut, errors.QuorumNotReached, errors.KeyedTasksOpen}
    assert outdated | lost == retryable
    assert issubclass(errors.StoreWentBack, errors.Unsafe)
    assert "broken invariant: x" in str(errors.InvariantBroken("x"))
