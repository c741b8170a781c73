"""Groups of kafka-python's own sticky assignor and ours: a change from one to the other, whichever leads."""

import copy
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from apportion.balance.kafka.plugins import kafka_python
from tests.balance.kafka.plugin_group import Group


class Partition(NamedTuple):
    """A partition, as kafka-python names it."""

    topic: str
    partition: int


@dataclass
class Theirs:
    """kafka-python's own assignor, with its messages in bytes."""

    own: object

    def metadata(self, topics):
        return self.own.metadata(topics).encode()

    def assign(self, cluster, members):
        return {member_id: given.encode() for member_id, given in self.own.assign(cluster, members).items()}

    def on_assignment(self, assignment, generation):
        named = [Partition(*each) for each in assignment.partitions()]
        self.own.on_assignment(SimpleNamespace(partitions=lambda: named), generation)


def own_sticky():
    """Return kafka-python's own sticky assignor."""
    theirs = "kafka.coordinator.assignors.sticky.sticky_assignor"
    return Theirs(pytest.importorskip(theirs, reason="no kafka-python").StickyPartitionAssignor())


def copied(group):
    """Return a group that can go on without this one."""
    return replace(group, assignors=copy.deepcopy(group.assignors))


@pytest.mark.parametrize("first", ["ours", "theirs"])
@pytest.mark.parametrize("last", ["ours", "theirs"])
def test_a_change_to_or_from_kafka_python_s_own_assignor_moves_nothing_more(first, last):
    makers = {"ours": kafka_python.Sticky, "theirs": own_sticky}
    group = Group(kafka_python, "Sticky", {"t": 40})
    group.assignors = {name: makers[first]() for name in "abcd"}
    before = group.rebalance("a")
    for old, new in zip("abcd", "efgh", strict=True):
        for leader in group.assignors.keys() - {old}:
            trial = copied(group)
            del trial.assignors[old]
            after = trial.rebalance(leader)
            assert all(before[name] <= after[name] for name in after)
        del group.assignors[old]
        fewer = group.rebalance(min(group.assignors))
        group.assignors[new] = makers[last]()
        for leader in group.assignors:
            trial = copied(group)
            assert all(owned <= fewer.get(name, owned) for name, owned in trial.rebalance(leader).items())
        before = group.rebalance(max(group.assignors))
        assert {10} == {len(owned) for owned in before.values()}
