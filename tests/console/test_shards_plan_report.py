"""The report of a plan of shards: each pair has a line with the channel that is possible, and why."""

import json

import pytest

from apportion import Assignment
from apportion.console.shards.plan_report import print_shard_plan, print_shard_plan_json
from apportion.model.topology import Topology
from apportion.shards.admin import PairChannel
from apportion.shards.plan import SetFacts, plan_slots
from apportion.tables.layout import Version
from tests.shards.sample import SET

CHANNELS = (
    PairChannel(source="one", target="two", kind="native", reason="logical replication is possible"),
    PairChannel(source="one", target="zoo", kind="keys", reason="wal_level of shard one is replica, not logical"),
)


@pytest.fixture
def plan():
    topology = Topology(["one", "two"])
    table = Assignment(topology=topology, rows=[(0,)] * 64, names=tuple(map(str, range(64))))
    facts = SetFacts(
        name=SET,
        version=Version(incarnation=1, number=1),
        assignment=table,
        sizes={"one": {}, "two": {}},
        moving={},
    )
    return plan_slots(facts, [1, 2], "two")


def test_a_plan_names_the_channel_of_each_pair_and_why(plan, capsys):
    print_shard_plan(plan, CHANNELS)
    lines = capsys.readouterr().out.splitlines()
    assert "one -> two: apply --channel native: logical replication is possible" in lines
    assert "one -> zoo: a log of keys: wal_level of shard one is replica, not logical" in lines


def test_json_has_the_channels_too(plan, capsys):
    print_shard_plan_json(plan, CHANNELS)
    first, second = json.loads(capsys.readouterr().out)["channels"]
    assert {"source": "one", "target": "two", "channel": "native", "reason": CHANNELS[0].reason} == first
    assert "keys" == second["channel"]
