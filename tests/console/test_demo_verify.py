"""The verifier of the demonstration: each of its checks passes on a good log, and fails on one that shows its fault."""

import pytest

from apportion.console.demo.groups.verify import checks

SIZES = [4] * 64


def effect(partition, member, *, at, epoch=1, start=0, places=4, holder=None):
    told = {"pid": 1, "member": member, "partition": partition, "token": [1, epoch], "holder": holder or member}
    return told | {"began": at, "ended": at + 0.5, "start": start, "places": places}


def good():
    first = [effect(partition, "a", at=float(partition)) for partition in range(64)]
    moved = [effect(partition, "b", at=100.0 + partition, epoch=2, start=4, places=0) for partition in range(32)]
    refused = effect(0, "a", at=200.0) | {"refused": True}
    del refused["places"]
    joins = [{"step": "begins", "members": ["a"]}]
    return [
        *first,
        *joins,
        {"step": "b joins", "members": ["a", "b"]},
        *moved,
        refused,
        {"step": "ends", "members": []},
    ]


def failed(lines):
    return {name for name, check in checks(lines, SIZES).items() if not check["passed"]}


def test_a_good_log_passes():
    assert set() == failed(good())
    assert {"passed": True, "value": 1.0, "moves": 32, "minimum": 32} == checks(good(), SIZES)["moves_vs_minimum"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("overlaps", effect(40, "a", at=40.2, places=0, holder="stranger")),
        ("lost", effect(40, "a", at=300.0, start=3, places=1)),
        ("disturbed", effect(40, "a", at=300.0, epoch=2, places=0)),
        ("disturbed", effect(0, "b", at=300.0, epoch=3, places=0, holder="another session of b")),
        ("moves_vs_minimum", effect(40, "b", at=300.0, epoch=2, places=0)),
    ],
)
def test_each_fault_is_found(name, line):
    lines = good()
    lines.insert(-1, line)
    assert {name} == failed(lines)


def test_another_session_of_who_slept_past_its_lease_is_no_disturbance():
    lines = good()
    lines.insert(-1, effect(40, "a", at=300.0, epoch=2, places=0, holder="another session of a"))
    assert set() == failed(lines)


def test_a_place_that_nobody_counted_is_lost():
    lines = [line for line in good() if line.get("partition") != 63]
    assert 4 == checks(lines, SIZES)["lost"]["value"]


def test_a_stale_write_must_have_been_tried():
    lines = [line for line in good() if not line.get("refused")]
    assert {"stale_writes_refused"} == failed(lines)
