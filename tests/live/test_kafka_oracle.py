"""Partitions against the `kafka-python` package."""

import os
from importlib import import_module
from random import Random

import pytest

from apportion.placement.layouts.kafka import murmur2, partition

pytestmark = pytest.mark.live

KEYS = 30_000
LETTERS = "az09 .é\u0301ßñ節点ひ🙂𝄞"


def default_partitioner():
    """Return the module of the package; without it skip, and fail where everything must run."""
    try:
        return import_module("kafka.partitioner.default")
    except ImportError as error:
        reason = f"{error}: pip install kafka-python"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)


def keys():
    """Return bytes of every length up to 64, texts outside ASCII and 64-bit integers of both byte orders."""
    random = Random(43)
    for number in range(KEYS // 3):
        yield random.randbytes(number % 65)
        yield "".join(random.choices(LETTERS, k=random.randint(0, 30))).encode()
        yield random.getrandbits(64).to_bytes(8, random.choice(["big", "little"]))


def test_a_hash_is_that_of_kafka_python():
    theirs = default_partitioner().murmur2
    ours = [murmur2(key) % 2**32 for key in keys()]
    assert ours == [theirs(key) for key in keys()]
    assert KEYS == len(ours)


def test_a_partition_is_that_of_kafka_python():
    partitioner, random = default_partitioner().DefaultPartitioner(), Random(44)
    for key in keys():
        cluster = _Cluster(random.choice([1, 2, 3, 6, 12, 50, 1000]))
        assert partitioner.partition("topic", None, key, None, None, cluster) == partition(key, len(cluster.numbers))


class _Cluster:
    """What the partitioner asks of the metadata of a cluster."""

    def __init__(self, partitions):
        self.numbers = range(partitions)

    def topics(self):
        return {"topic"}

    def partitions_for_topic(self, _):
        return set(self.numbers)

    def available_partitions_for_topic(self, _):
        return set(self.numbers)
