"""Tokens against the `cassandra-driver` package, and where its replica lists are not Cassandra's.

The driver is right about tokens of keys that are not empty. Its NetworkTopologyStrategy is no oracle: the lists that
Cassandra itself gave are the vectors of `test_cassandra.py`.
"""

import json
import os
from importlib import import_module
from pathlib import Path
from random import Random

import pytest

from apportion.placement.layouts.cassandra import token
from apportion.placement.layouts.cassandra.murmur3 import murmur3_by_rule

pytestmark = pytest.mark.live

KEYS = 30_000
LETTERS = "az09 .é\u0301ßñ節点ひ🙂𝄞"
VECTORS = Path(__file__).parents[1] / "placement" / "vectors" / "cassandra_replicas.json"


def driver(module):
    """Return a module of the driver; without it skip, and fail where everything must run."""
    try:
        return import_module(module)
    except ImportError as error:
        reason = f"{error}: pip install cassandra-driver"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


def keys():
    """Return bytes of every length up to 64, texts outside ASCII and 64-bit integers of both byte orders."""
    random = Random(42)
    for number in range(KEYS // 3):
        yield random.randbytes(number % 65) or b"\xff"
        yield "".join(random.choices(LETTERS, k=random.randint(1, 30))).encode()
        yield random.getrandbits(64).to_bytes(8, random.choice(["big", "little"]))


@pytest.mark.parametrize("implementation", ["cassandra.cmurmur3", "cassandra.murmur3"])
def test_a_murmur3_token_is_that_of_the_driver(implementation):
    module = driver(implementation)
    theirs = getattr(module, "_murmur3", module.murmur3)
    ours = [token(key) for key in keys()]
    assert ours == [theirs(key) for key in keys()]
    assert (len(ours), True) == (KEYS, any(not key.isascii() for key in keys()))


def test_the_rule_without_a_package_is_that_of_the_driver():
    theirs = driver("cassandra.murmur3").murmur3
    assert [theirs(key) % 2**64 for key in keys()] == [murmur3_by_rule(key) for key in keys()]


def test_a_random_token_is_that_of_the_driver():
    theirs = driver("cassandra.metadata").MD5Token.hash_fn
    assert [theirs(key) for key in keys()] == [token(key, partitioner="random") for key in keys()]


def test_a_byteordered_token_and_its_order_are_those_of_the_driver():
    read = driver("cassandra.metadata").BytesToken.from_string
    ours = sorted(token(key, partitioner="byteordered") for key in keys())
    assert ours == [each.value for each in sorted(read(key.hex()) for key in keys())]


def test_the_driver_gives_the_empty_key_another_token_than_cassandra():
    assert (0, -(2**63)) == (driver("cassandra.murmur3").murmur3(b""), token(b""))


def test_the_replicas_of_the_driver_are_not_those_of_cassandra():
    strategy = driver("cassandra.metadata").NetworkTopologyStrategy
    twice = other = 0
    for cluster in json.loads(VECTORS.read_text())["clusters"]:
        hosts = {number: _Host(number, name, rack) for number, name, rack, _ in cluster["nodes"]}
        owners = {value: hosts[number] for number, _, _, own in cluster["nodes"] for value in own}
        lists = strategy(cluster["network"]).make_token_replica_map(owners, sorted(owners))
        for asked, cassandra, _ in cluster["asked"]:
            falls_to = min((value for value in owners if value >= asked), default=min(owners))
            theirs = [host.number for host in lists[falls_to]]
            twice += len(set(theirs)) < len(theirs)
            other += set(theirs) != set(cassandra)
    assert (True, True) == (twice > 0, other > 0)


class _Host:
    """What the driver's strategy asks of a host."""

    def __init__(self, number, datacenter, rack):
        self.number, self.datacenter, self.rack = number, datacenter, rack
