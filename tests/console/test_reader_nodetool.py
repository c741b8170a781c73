"""What nodetool prints is read whole or refused by the number of the line, and gives back Cassandra's replicas.

The samples are made by hand in the formats that the `Ring` and `DescribeRing` commands of releases 3.11 and 4.1 print.
"""

from pathlib import Path

import pytest

from apportion import Node
from apportion.console.files.readers.nodetool import (
    parse_describering,
    parse_ring,
    read_token_ring,
    write_initial_tokens,
)
from apportion.errors import InvalidInput
from apportion.placement.layouts.cassandra import Cassandra, NetworkTopologyStrategy, SimpleStrategy

SAMPLES = Path(__file__).parent / "samples"
RING = (SAMPLES / "nodetool-ring-4.1.txt").read_text()
RANGES = (SAMPLES / "nodetool-describering-4.1.txt").read_text()
HALF = 2**63


def test_a_ring_of_one_datacenter_is_read_whole():
    found = read_token_ring(SAMPLES / "nodetool-ring-3.11.txt")
    assert ("172.31.33.227", "172.31.33.228", "172.31.33.229") == found.topology.ids
    assert {("datacenter1", "rack1")} == {node.zone for node in found.topology}
    assert (-5789073693455906733, -3626606606854918714, 1611965628600829264) == found.tokens["172.31.33.227"]
    assert [3, 3, 3] == [len(own) for own in found.tokens.values()]
    assert (("172.31.33.229",), {}) == (found.not_up, found.replicas)


def test_ports_brackets_racks_without_a_blank_and_racks_with_one_are_read():
    found = read_token_ring(SAMPLES / "nodetool-ring-4.1.txt")
    expected = [
        Node("10.0.0.14:7000", zone=("us-east", "rack Up 2")),
        Node("10.0.0.1:7000", zone=("europe-west1", "europe-west1-b")),
        Node("10.0.0.2:7000", zone=("europe-west1", "europe-west1-c")),
        Node("10.0.0.3:7000", zone=("europe-west1", "europe-west1-b")),
        Node("[2001:db8::15]:7000", zone=("us-east", "1a")),
    ]
    assert sorted(expected, key=lambda node: node.id) == list(found.topology)
    assert ("10.0.0.14:7000",) == found.not_up
    assert {2} == {len(own) for own in found.tokens.values()}


def test_a_node_alone_in_its_datacenter_and_tokens_of_127_bits_are_read():
    found = read_token_ring(SAMPLES / "nodetool-ring-random-partitioner.txt")
    assert {"127.0.0.1": (0,), "127.0.0.2": (85070591730234615865843651857942053864,)} == found.tokens
    assert [("dc1", "r1"), ("dc2", "r1")] == [node.zone for node in found.topology]


def test_both_commands_tell_the_same_cluster():
    ring, ranges = parse_ring(RING), read_token_ring(SAMPLES / "nodetool-describering-4.1.txt")
    assert (ring.topology, ring.tokens) == (ranges.topology, ranges.tokens)
    assert () == ranges.not_up


def test_a_cluster_made_of_the_output_has_the_replicas_that_were_printed():
    found = parse_describering(RANGES)
    strategy = NetworkTopologyStrategy({"europe-west1": 2, "us-east": 1})
    table = Cassandra(found.topology, tokens=found.tokens, strategy=strategy).replica_table()
    assert 10 == len(found.replicas)
    assert found.replicas == {token: table.owners(token + HALF) for token in found.replicas}


def test_a_ring_makes_a_cluster():
    found = parse_ring(RING)
    cluster = Cassandra(found.topology, tokens=found.tokens, strategy=SimpleStrategy(3))
    assert (3, found.tokens) == (len(cluster.replicas("tenant-42")), cluster.tokens)


ROW = "127.0.0.1  rack1       Up     Normal  64.86 KB        100.00%             0"


@pytest.mark.parametrize("rack", ["BackUp", "rack-that-is-longUp", "Normal", "a", "Up     Normal", "?"])
@pytest.mark.parametrize("status", ["Up", "Down", "?"])
@pytest.mark.parametrize(("load", "owns"), [("?", "?"), ("0 bytes", "100.00%"), ("1,2 GiB", "33,3 %")])
def test_no_rack_load_or_share_misleads(rack, status, load, owns):
    row = f"{'127.0.0.1'}  {rack:<12}{status:<7}{'Normal':<8}{load:<16}{owns:<20}{-5:<44}"
    found = parse_ring(f"Datacenter: dc 1\n==========\n\n{row}\n")
    assert ("dc 1", rack) == found.topology["127.0.0.1"].zone
    assert ({"127.0.0.1": (-5,)}, status != "Up") == (found.tokens, bool(found.not_up))


@pytest.mark.parametrize("state", ["Joining", "Leaving", "Moving"])
def test_a_ring_in_change_is_refused(state):
    with pytest.raises(
        InvalidInput, match=rf"(?s)line 2 of the nodetool output is '{state}', expected Normal.*Wait until"
    ):
        parse_ring(f"Datacenter: dc1\n{ROW.replace('Normal', state)}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ROW, r"line 1 of .* is '127.*expected a line 'Datacenter"),
        (f"Datacenter:\n{ROW}", r"line 1 of .* is 'Datacenter:'"),
        (f"Datacenter: dc1\n{ROW}\n{ROW}", r"line 3 of .* is 0, expected another token than 127\.0\.0\.1 has in line"),
        (f"Datacenter: dc1\n{ROW}\nDatacenter: dc2\n{ROW[:-1]}1", r"line 4 of .* is 'dc2/rack1', expected dc1/rack1"),
        (f"Datacenter: dc1\n\n   77  \n{ROW}", r"line 3 of .* is 77, expected the token of a row below"),
        (f"Datacenter: dc1\n77\n{ROW}\nDatacenter: dc2\n{ROW[:-1]}77", r"line 2 of .* is 77"),
        (f"Datacenter: dc1\n{ROW}\n...", r"line 3 of .* is '\.\.\.', expected a row of `nodetool ring`"),
        (f"Datacenter: dc1\n{ROW[:-1]}deadbeef", r"(?s)line 2 of .* is 'deadbeef', expected a token that.*ByteOrdered"),
        (f"Datacenter: dc1\n{ROW[:-1]}Token(bytes[0a])", r"(?s)line 2 of .* is '0a', .*replicas_of"),
        (f"Datacenter: dc1\n  6b657a\n{ROW}", r"(?s)line 2 of .* is '6b657a', .*ByteOrderedPartitioner are not read"),
        (f"Datacenter: dc1\n{ROW[:-1]}abc", r"line 2 of .* expected a row of"),
        (f"Datacenter: dc1\n{ROW[:-1]}1e5", r"line 2 of .* expected a row of"),
        (f"Datacenter: dc1\n{ROW}{'0' * 39}1", r"line 2 of .* expected a row of"),
        (f"Datacenter: dc1\n{ROW[:-1]}٣", r"line 2 of .* expected a row of"),
        (f"Datacenter: dc1\n{ROW[:-1]}{2**127 + 1}", r"line 2 of .*, expected a token of at most 2\*\*127"),
        (f"Datacenter: dc1\n{ROW[:-1]}{-(2**63) - 1}", r"line 2 of .*, expected a token of at most 2\*\*127"),
        (f"Datacenter: dc1\n{ROW.replace('Up', 'Sideways')}", r"line 2 of .* expected a row of"),
        (f"Datacenter: dc1\n{ROW.replace('rack1', '     ')}", r"line 2 of .* expected a row of"),
        (f"Datacenter: dc1\n{'x' * 5000}", r"line 2 of .* expected at most 4096 characters"),
        (f"Datacenter: dc1\n{'9' * 4096}", r"line 2 of .* expected a row of"),
        ("Error: The keyspace shop, does not exist", r"line 1 of .* is 'Error"),
        ("Datacenter: dc1\n==========\n", r"nodetool output is 'no rows', expected at least one token"),
        ("Datacenter: datacenter1\n=======================\nStatus=Up/Down\n", r"line 3 of .* is 'Status=Up/Down'"),
        ("", r"nodetool output is 'no rows'"),
    ],
)  # fmt: skip
def test_a_ring_that_is_cut_or_damaged_is_refused_by_its_line(text, says):
    with pytest.raises(InvalidInput, match=says):
        parse_ring(text)


LINES = RANGES.splitlines()


@pytest.mark.parametrize("gone", range(2, len(LINES)))
def test_ranges_with_a_line_missing_are_refused(gone):
    with pytest.raises(InvalidInput, match=r"(?s)line \d+ of .*, where the range before it ends.*Lines are missing"):
        parse_describering("\n".join(LINES[:gone] + LINES[gone + 1 :]))


@pytest.mark.parametrize("last", ["6275869275626597439", "3853509108166086057"])
def test_a_ring_without_its_last_row_is_refused(last):
    (gone,) = (line for line in RING.splitlines() if last in line and "Normal" in line)
    with pytest.raises(InvalidInput, match=f"is {last}, expected the token of a row below"):
        parse_ring(RING.replace(f"{gone}\n", ""))


def one_range(
    endpoints="[10.0.0.1]", details="[EndpointDetails(host:10.0.0.1, datacenter:dc1, rack:rack1)]", start="7", end="7"
):
    """Return a line of describering for a ring of one token."""
    ends = f"start_token:{start}, end_token:{end}"
    return f"\tTokenRange({ends}, endpoints:{endpoints}, rpc_endpoints:[x], endpoint_details:{details})"


def test_a_range_is_the_whole_ring_of_one_token():
    found = parse_describering(one_range())
    assert ({"10.0.0.1": (7,)}, {7: ("10.0.0.1",)}) == (found.tokens, found.replicas)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (one_range(start="8"), r"line 1 of .* is 8, expected 7, where the range before it ends"),
        (one_range(start="a0"), r"(?s)line 1 of .* is 'a0', expected a token that is a number.*ByteOrdered"),
        (one_range(start="xyz"), r"line 1 of .* expected a line 'TokenRange"),
        (one_range(endpoints="[]", details="[]"), r"line 1 of .* expected endpoints, with the datacenter"),
        (one_range(endpoints="[10.0.0.2]"), r"line 1 of .* expected endpoints, with the datacenter"),
        (one_range(endpoints="[10.0.0.1, 10.0.0.2]"), r"line 1 of .* expected endpoints, with the datacenter"),
        (one_range(details="[EndpointDetails(host:10.0.0.1, rack:rack1)]"), r"line 1 of .* expected endpoints"),
        (one_range(details="[EndpointDetails(host:10.0.0.1, datacenter:dc1)]"), r"line 1 of .* expected endpoints"),
        (f"{one_range()}\n{one_range()}", r"line 2 of .* is 7, expected another token than 10\.0\.0\.1 has"),
        (f"{one_range()}\n{one_range(end='9').replace('dc1', 'dc2')}", r"line 2 of .* is 'dc2/rack1', expected dc1"),
        (f"Schema Version:x\nTokenRange: \n{one_range()[:-30]}", r"line 3 of .* expected a line 'TokenRange"),
        ("The keyspace shop, does not exist", r"line 1 of .* expected a line 'TokenRange"),
        ("Schema Version:x\nTokenRange: \n", r"nodetool output is 'no rows'"),
    ],
)  # fmt: skip
def test_ranges_that_are_damaged_are_refused_by_their_line(text, says):
    with pytest.raises(InvalidInput, match=says):
        parse_describering(text)


def test_a_file_that_is_no_text_or_not_there_is_refused(tmp_path):
    (tmp_path / "ring").write_bytes(b"Datacenter: \xff")
    with pytest.raises(InvalidInput, match="byte 12, in line 1, is not"):
        read_token_ring(tmp_path / "ring")
    with pytest.raises(InvalidInput, match="nodetool output"):
        read_token_ring(tmp_path / "none")


def test_lines_that_end_as_on_windows_are_read():
    assert parse_ring(RING) == parse_ring(RING.replace("\n", "\r\n"))


def test_written_tokens_read_back_as_the_same_ring():
    found = parse_ring(RING)
    written = write_initial_tokens(found.tokens)
    back, names = {}, []
    for line in written.splitlines():
        key, _, value = line.partition(": ")
        if line.startswith("# "):
            names.append(line[2:])
        elif key == "initial_token":
            back[names[-1]] = tuple(map(int, value.split(",")))
        else:
            assert ("num_tokens", str(len(found.tokens[names[-1]]))) == (key, value)
    assert (found.tokens, sorted(names)) == (back, names)
    cluster = Cassandra(found.topology, tokens=back)
    assert written == write_initial_tokens(cluster.tokens)


@pytest.mark.parametrize(
    ("tokens", "says"),
    [({"a": ()}, "tokens of node 'a' is 'none', expected at least one"), ({"a\nb": (1,)}, "node id")],
)
def test_tokens_that_cassandra_would_misread_are_not_written(tokens, says):
    with pytest.raises(InvalidInput, match=says):
        write_initial_tokens(tokens)
