"""Refusing a snapshot takes less than 64 MiB beyond the snapshot itself, also where its checksum fits."""

import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from apportion import Assignment, Plan, Ring, Table, Topology, encode, plan
from apportion.model import codec
from tests.model.refusing import STATUS
from tests.model.snapshots import forged, resealed

HUGE = {
    "empty lists": lambda: b"[" + b",".join([b"[]"] * 3_000_000) + b"]",
    "lists": lambda: b"[" + b",".join([b"[0]"] * 3_000_000) + b"]",
    "nested lists": lambda: b"[" + b",".join([b"[[[0]]]"] * 1_000_000) + b"]",
    "objects": lambda: b"[" + b",".join([b'{"a":0}'] * 1_000_000) + b"]",
    "members": lambda: b"{" + b",".join(b'"k%06d":0' % number for number in range(1_000_000)) + b"}",
    "strings": lambda: b"[" + b",".join([b'"ab"'] * 3_000_000) + b"]",
    "one string": lambda: b'"' + b"a" * 15_000_000 + b'"',
    "numbers": lambda: b"[" + b",".join([b"1000"] * 3_000_000) + b"]",
    "nodes": lambda: (
        b'{"number":1,"zones":[[]],"ids":[%b]}' % b",".join(b'"n%06d"' % number for number in range(350_000))
    ),
    "just too many nodes": lambda: (
        b'{"number":1,"zones":[[]],"ids":[%b]}' % b",".join(b'"n%06d"' % number for number in range(100_001))
    ),
}
ROOM = 64 * 2**20
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not STATUS.exists(), reason=f"this system has no {STATUS}")


@pytest.mark.slow
@pytest.mark.parametrize("part", [1, 8])
@pytest.mark.parametrize("name", HUGE)
def test_refusing_a_snapshot_that_is_huge_when_parsed_takes_little_memory(name, part, tmp_path):
    whole = HUGE[name]()
    body = whole[: len(whole) // part]
    nodes = body.count(b'"n')
    columns = b'"zones":"%b","weights":"%b"' % (b"00000000" * nodes, b"00000000000f4240" * nodes)
    assert refusal_bytes(forged(b"topology", body, columns=columns), Topology, tmp_path) < ROOM


@pytest.mark.slow
@pytest.mark.parametrize("owners", [1, 3])
@pytest.mark.parametrize("fault", ["start", "owner", "slots"])
def test_refusing_a_large_table_for_its_last_entry_takes_little_memory(owners, fault, tmp_path):
    nodes = [f"n{number:03d}" for number in range(1000)]
    count = codec.MAX_BYTES // (16 + 8 * owners) - 2_000
    starts = [number << 40 for number in range(count)]
    rows = [[(number + shift) % 1000 for shift in range(owners)] for number in range(count)]
    if fault == "start":
        starts[-1] = starts[-2]
    if fault == "owner":
        rows[-1][-1] = 1000
    topology = re.fullmatch(rb'.*"columns":{(.*)},"body":(.*)}\n', encode(Topology(nodes)))
    flat = [index for row in rows for index in row]
    columns = topology[1] + b',"starts":"%b","owners":"%b"' % (
        struct.pack(f">{count}Q", *starts).hex().encode(),
        struct.pack(f">{len(flat)}I", *flat).hex().encode(),
    )
    body = b'{"hasher":"h","slots":%d,"replicas":%d,"topology":%b}' % (fault == "slots", owners, topology[2])
    data = forged(b"table", body, columns=columns)
    assert 0.9 * codec.MAX_BYTES < len(data)
    assert refusal_bytes(data, Table, tmp_path) < ROOM


@pytest.mark.slow
@pytest.mark.parametrize("last", ["overlap", "owner", "backwards"])
def test_refusing_a_large_plan_for_its_last_change_takes_little_memory(last, tmp_path):
    count = codec.MAX_BYTES // 48 - 2_000
    starts = [number << 40 for number in range(count)]
    ends = [start + 1 for start in starts]
    owners = [0] * count
    match last:
        case "overlap":
            starts[-1] = starts[-2]
        case "backwards":
            ends[-1] = starts[-1]
        case "owner":
            owners[-1] = 2
    small = json.loads(encode(plan(Ring(["a", "b"], vnodes=1), Ring(["a", "c"], vnodes=1))))
    small["columns"] |= {
        "starts": struct.pack(f">{count}Q", *starts).hex(),
        "ends": struct.pack(f">{count}Q", *ends).hex(),
        "owners_before": struct.pack(f">{count}I", *owners).hex(),
        "owners_after": bytes(4 * count).hex(),
    }
    small["body"]["changes"] = count
    data = resealed(json.dumps(small, separators=(",", ":")).encode() + b"\n")
    assert refusal_bytes(data, Plan, tmp_path) < ROOM


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["name", "size", "owner", "home", "proof"])
def test_refusing_a_large_assignment_for_its_last_entry_takes_little_memory(fault, tmp_path):
    body, parts = _large_assignment(fault)
    columns = b",".join(b'"%b":"%b"' % (name.encode(), column.hex().encode()) for name, column in parts.items())
    data = forged(b"assignment", json.dumps(body, separators=(",", ":")).encode(), columns=columns)
    assert 0.9 * codec.MAX_BYTES < len(data) <= codec.MAX_BYTES
    assert refusal_bytes(data, Assignment, tmp_path) < ROOM


def _large_assignment(fault):
    """Return body and columns of an assignment that is as large as can be, most of it in what has the fault."""
    nodes = 95_000 if fault == "proof" else 3
    small = json.loads(encode(Topology([f"n{number:05d}" for number in range(nodes)])))
    body = {"partitions": 1, "replicas": 1, "topology": small["body"]}
    parts = {name: bytes.fromhex(column) for name, column in small["columns"].items()}
    count = {"name": 2**19, "size": 660_000, "owner": 2_000_000, "home": 1_000_000}.get(fault, 1)
    if fault == "proof":
        # What a number takes most memory as, and one node too few in the last step.
        steps = {"home": [0, 0], "current": [0, 0]}
        body["certificate"] = {"previous": "", "topology": "0" * 32, "options": "0" * 32, **steps}
        parts |= {"home_proof": b"\x7f" * 32 * nodes, "current_proof": b"\x7f" * 32 * (nodes - 1)}
        return body, parts | {"owners": bytes(4)}
    body["partitions"] = count
    parts["owners"] = bytes(4 * count - 4) + struct.pack(">I", 3 if fault == "owner" else 0)
    if fault == "home":
        body["home_replicas"], parts["home"] = 1, bytes(4 * count - 4) + struct.pack(">I", 3)
    if fault == "size":
        parts["sizes"] = struct.pack(f">{count}Q", *range(2**62, 2**62 + count - 1), 2**64 - 1)
    if fault == "name":
        names = [b"%07x" % (number % (count - 1)) for number in range(count)]
        parts |= {"names": b"".join(names), "names_lengths": struct.pack(">I", 7) * count}
    return body, parts


def refusal_bytes(data, kind, folder):
    """Return by how many bytes a process grows that refuses a snapshot, beyond the snapshot itself."""
    path = folder / "snapshot"
    path.write_bytes(data)
    command = [sys.executable, "-m", "tests.model.refusing", str(path), kind.__name__]
    return int(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def test_memory_that_a_refusal_takes_is_counted(tmp_path):
    body = HUGE["one string"]()
    assert refusal_bytes(forged(b"topology", body), Topology, tmp_path) > len(body) / 2
