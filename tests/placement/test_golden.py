"""Answers are fixed for ever: in this process, in another with a different hash seed, and in every later release.

Origin of `vectors/*.json`: apportion 0.1.0, written once by `python -m tests.placement.test_golden`, which refuses to
write them again; the same numbers follow from the formulas of the docstrings by the twins of `test_ring.py` and
`test_rendezvous.py`. They are never to be regenerated: a release that gives other answers moves its users' data.
"""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from uuid import UUID

import pytest

from apportion import Assignment, Jump, Modulo, Node, Rendezvous, Ring, Slots, Topology, balance, hashers

VECTORS = Path(__file__).parent / "vectors"
SECRET = bytes(range(16))
KEYS = {
    "empty": "",
    "ascii": "tenant-42",
    "accented": "café",
    "decomposed": "cafe\u0301",
    "wide": "節点/𝄞",
    "with NUL": "a\0b",
    "bytes": b"\x00\xff\x80",
    "zero": 0,
    "one": 1,
    "minus one": -1,
    "least int": -(2**63),
    "largest int": 2**63 - 1,
    "uuid": UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
    "longest": "x" * 65_536,
}
TOPOLOGY = Topology(
    [
        Node("db-01", zone=("eu", "r1")),
        Node("db-02", zone=("eu", "r2"), weight=2),
        Node("café", zone=("us",), weight=0.5),
        Node("節点", zone=("us",)),
        Node("gone", weight=0),
        Node("x" * 255),
    ],
    cluster="golden",
)
EQUAL = ["db-01", "café", "節点", "db-02"]


def placements():
    """Return one placement of every kind, by name."""
    return {
        "ring": Ring(TOPOLOGY),
        "ring, md5, 3 vnodes": Ring(TOPOLOGY, vnodes=3, hasher="md5"),
        "ring, siphash": Ring(TOPOLOGY, hasher=hashers.get("siphash-2-4", key=SECRET)),
        "rendezvous": Rendezvous(TOPOLOGY),
        "rendezvous, murmur3": Rendezvous(TOPOLOGY, hasher="murmur3"),
        "jump": Jump(EQUAL),
        "modulo": Modulo(EQUAL),
        "slots": Slots(balance.slots(TOPOLOGY)),
        "slots, crc16": Slots(
            Assignment(topology=TOPOLOGY, rows=tuple((slot % 3,) for slot in range(16384))), hasher="crc16"
        ),
    }


@cache
def answers():
    """Return all that is pinned: file by file, as JSON would hold it."""
    built = placements()
    return {
        "hashes": {
            name: {
                key: f"{hashers.get(name, key=SECRET if 'sip' in name else None)(_bytes(value)):x}"
                for key, value in KEYS.items()
            }
            for name in hashers.names()
        },
        "owners": {
            name: {key: placement.route(value) for key, value in KEYS.items()} for name, placement in built.items()
        },
        "preferences": {
            name: {key: list(built[name].preference(value, 5, spread="best-effort")) for key, value in KEYS.items()}
            for name in built
            if name.startswith(("ring", "re"))
        },
        "slots": {key: built["slots"].slot(value) for key, value in KEYS.items()},
        "tokens": {"ring, md5, 3 vnodes": [f"{start:016x}" for start in built["ring, md5, 3 vnodes"].table().starts]},
        "epochs": {
            "topology": str(TOPOLOGY.epoch.digest),
            **{
                name: placement.table().epoch.digest
                for name, placement in built.items()
                if placement.table() is not None
            },
        },
        "assignment": {"loads": balance.slots(TOPOLOGY).loads, "first": _leaders(balance.slots(TOPOLOGY, count=64))},
    }


def _bytes(key):
    if isinstance(key, int):
        return key.to_bytes(8, "little", signed=True)
    return key if isinstance(key, bytes) else str(key).encode()


def _leaders(assignment):
    return [owners[0] for owners in assignment.preference_lists.values()]


def write_vectors():
    """Write the golden answers, once and never again."""
    VECTORS.mkdir(exist_ok=True)
    for name, answer in answers().items():
        content = {"origin": "apportion 0.1.0, tests/placement/test_golden.py", "answers": answer}
        with (VECTORS / f"{name}.json").open("x", encoding="utf-8") as file:
            json.dump(content, file, indent=1, ensure_ascii=False)
            file.write("\n")


@pytest.mark.parametrize("name", ["hashes", "owners", "preferences", "slots", "tokens", "epochs", "assignment"])
def test_answers_are_those_of_every_release_before(name):
    golden = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    assert golden["answers"] == answers()[name]


def test_every_golden_file_is_compared():
    assert {f"{name}.json" for name in answers()} <= {path.name for path in VECTORS.glob("*.json")}


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_a_fresh_process_with_another_hash_seed_gives_the_same_answers(seed):
    command = "import json; from tests.placement import test_golden; print(json.dumps(test_golden.answers()))"
    done = subprocess.run(
        [sys.executable, "-c", command],
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=True,
        text=True,
    )
    assert json.loads(json.dumps(answers())) == json.loads(done.stdout)


if __name__ == "__main__":
    write_vectors()
