"""Malformed records of groups: bytes, types, depth and range of each kind, and a drawn mix of them."""

import json
import zlib
from itertools import cycle, islice
from random import Random

from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import GroupRecord, MemberRecord, OwnershipRecord, Target, encoded, encoded_target
from apportion.groups.view.seal import sealed, unsealed

GOOD_OWN = OwnershipRecord(owner="a", session=4, epoch=7)
GOOD_TARGET = Target(generation=3, digest="d", owners=("a", "b", None))


def changed(record, **members):
    return json.dumps(json.loads(encoded(record)) | members).encode()


def target_of(head=None, packed=None):
    line, _, rest = unsealed("target", encoded_target(GOOD_TARGET)).partition(b"\n")
    said = json.dumps(json.loads(line) | (head or {})).encode()
    return sealed(said + b"\n" + (rest if packed is None else packed))


BYTES = {
    "nothing": b"", "no text": b"\xff\xfe\x00", "no JSON": b"{", "zeros": bytes(40), "a list": b"[]", "null": b"null",
    "empty": b"{}", "other text": "{}".encode("utf-16"), "deep": b"[" * 100_000, "deeper": b'{"owner":' * 100_000,
    "a long number": b'{"epoch":' + b"9" * 10_000 + b"}",
}  # fmt: skip
OWN = BYTES | {
    f"{name} {value!r:.20}": changed(GOOD_OWN, **{name: value})
    for name, values in {
        "owner": [7, [], {}, True, "", "a/b", "x" * 256, "\ud800", " a", "a\n"],
        "session": [None, "4", 4.0, True, -1, 2**63, 10**40, [4], 10_000],
        "epoch": [None, "7", 7.5, False, -1, 2**63, 10**40, {}, 10_000, float("nan"), float("inf")],
        "ended": [None, "0", 5, {}, ["a"], [None], [-1], [2**63], [1] * 10],
    }.items()
    for value in values
}
MEMBER = BYTES | {
    f"{name} {value!r:.20}": changed(MemberRecord(nonce="a"), **{name: value})
    for name, values in {
        "nonce": [None, 7, [], "\ud800"],
        "weight": [None, "1", -1, 1e-9, 1e10, float("nan"), float("inf"), True, [], 10**400],
        "zone": [None, "eu", [1], ["a"] * 9, [""], {"a": 1}, [["eu"]]],
        "labels": [None, [], {"a": 1}, {"a": None}, {"a": {"b": "c"}}, {"\ud800": ""}],
        "grace_seconds": [None, "1", -1, 1e9, float("nan")],
        "left_session": [None, "1", -1, 2**63],
        "former": [None, 5, {}, ["a"], [-1], [1] * 17],
    }.items()
    for value in values
}
TARGET = BYTES | {
    f"{name} {value!r:.20}": target_of({name: value})
    for name, values in {
        "generation": [None, "3", -1, 2**63, 1.5, 2**63 - 1, 10_000],
        "digest": [None, 5, []],
        "ids": [None, "ab", ["a"], [1, 2], ["a", "b/c"], ["a", ""], ["a", "a"], {"a": 1}],
        "paused": [None, 0, "no"],
        "idle": [None, "a", [1], ["/"]],
    }.items()
    for value in values
}
TARGET |= {
    "not packed": target_of(packed=b"abcdef"), "cut": target_of(packed=zlib.compress(bytes(6))[:-3]),
    "too few": target_of(packed=zlib.compress(bytes(4))), "too many": target_of(packed=zlib.compress(bytes(8))),
    "odd": target_of(packed=zlib.compress(bytes(5))), "a bomb": target_of(packed=zlib.compress(bytes(2**25))),
    "more": target_of(packed=zlib.compress(bytes(6)) + b"x"),
    "out of range": target_of(packed=zlib.compress(b"\x09" * 6)),
    "another owner": encoded_target(GOOD_TARGET).replace(b'["a","b"]', b'["a","q"]'),
    "paused by hand": encoded_target(GOOD_TARGET).replace(b'"paused":false', b'"paused":true'),
    "not sealed": unsealed("target", encoded_target(GOOD_TARGET)), "one byte": encoded_target(GOOD_TARGET)[:-1] + b"x",
}  # fmt: skip
CONTROLLER = {
    "nothing": b"", "no text": b"\xff 4", "an id alone": b"a", "no number": b"a b", "below 0": b"a -4", "no id": b" 4",
    "a slash": b"a/b 4", "signs": "a \u0664".encode(), "huge": b"a " + b"9" * 5_000,
}  # fmt: skip
DRAIN = {"nothing": b"", "no text": b"\xff", "another word": b"drain", "a record": b"{}"}
GROUP = BYTES | {
    f"{name} {value!r:.20}": changed(GroupRecord(partitions=4), **{name: value})
    for name, values in {
        "partitions": [None, "4", 0, -1, 2**18 + 1, 4.0, True, []],
        "mode": [None, 1, "eagre", []],
        "balancer": [None, 1, "", "\ud800"],
        "quarantine_after": [0, -1, 10, "3", 2.0, []],
        "format": [None, "1", 0, -1, 1.5],
    }.items()
    for value in values
}
JUNK = {f"{name} {value!r}": value for name in ("own", "member") for value in (b"", b"\xff", b"{}", b"[" * 100_000)}
ROOMS = ("own/abc", "own/-1", "own/999999", "own/007", "member/", "member/a/b", "static/ ", "hint/a", "drain/", "x")


def mixed(seed, count, *, group, members, partitions):
    """Return so many malformed records: (key, value, whether it keeps the lease that was there)."""
    draw, keys = Random(seed), GroupKeys(group=group)
    kinds = {
        "own": (OWN, lambda: keys.own(draw.randrange(partitions))),
        "member": (MEMBER, lambda: keys.member(draw.choice(members))),
        "static": (MEMBER, lambda: keys.static(draw.choice(members))),
        "target": (TARGET, lambda: keys.target),
        "controller": (CONTROLLER, lambda: keys.controller),
        "drain": (DRAIN, lambda: keys.drain(draw.choice(members))),
        "group": (GROUP, lambda: keys.record),
        "junk": (JUNK, lambda: keys.live + draw.choice(ROOMS)),
    }
    for values, key in islice(cycle(kinds.values()), count):
        yield key(), draw.choice(list(values.values())), draw.random() < 0.5
