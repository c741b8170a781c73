"""Groups of consumers without a broker: a cluster, members as a client reports them, and rounds of rebalance."""

from dataclasses import dataclass, field

from apportion.balance.kafka.plugins import kafka_python
from tests.balance.wire_reader import read_assignment, read_subscription


@dataclass
class Cluster:
    """Topics and how many partitions each has."""

    counts: dict

    def partitions_for_topic(self, topic):
        return set(range(self.counts[topic])) if topic in self.counts else None

    def topics(self):
        return set(self.counts)


@dataclass
class Member:
    """A member as kafka-python tells of it."""

    member_id: str
    metadata: object
    group_instance_id: str | None = None


@dataclass
class Group:
    """Consumers of one client, each with its assignor; rounds of rebalance as a broker would run them."""

    client: object
    kind: str
    topics: dict
    assignors: dict = field(default_factory=dict)
    generation: int = 0

    def join(self, *names):
        for name in names:
            self.assignors[name] = getattr(self.client, self.kind)()

    def rebalance(self, leader, ids=None):
        """Let all join again, one lead, and all hear; return the partitions of each."""
        self.generation += 1
        ids = ids or {name: name for name in self.assignors}
        said = {ids[name]: read_subscription(each.metadata(self.topics)) for name, each in self.assignors.items()}
        if self.client is kafka_python:
            said = [Member(member_id, metadata) for member_id, metadata in said.items()]
        given = self.assignors[leader].assign(Cluster(self.topics), said)
        found = {name: read_assignment(given[ids[name]]) for name in self.assignors}
        for name, assignor in self.assignors.items():
            more = (self.generation,) if self.client is kafka_python else ()
            assignor.on_assignment(found[name], *more)
        return {name: set(each.partitions()) for name, each in found.items()}
