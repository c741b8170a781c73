"""A year of a cluster: nodes join, go, rest, drain and change weight, partitions come and go; every day is proven."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from apportion import Node, Topology, balance
from tests import invariants

ZONES = ("z0", "z1", "z2", "z3")
WEIGHTS = (0.5, 1, 1, 1, 2, 3.75)
zones = st.sampled_from(ZONES)


class Year(RuleBasedStateMachine):
    """Each rule is a change of what there is; after it, the balancer is asked anew from where it was."""

    def __init__(self):
        super().__init__()
        self.joined = 0
        self.resting = set()

    @initialize(count=st.integers(1, 25), replicas=st.integers(1, 3))
    def begin(self, count, replicas):
        """Place some partitions on four nodes in four zones."""
        self.partitions = [f"p{number}" for number in range(count)]
        self.replicas = replicas
        self.topology = Topology(Node(f"n{zone}", zone=(zone,)) for zone in ZONES)
        self.assignment = None
        self.ask()

    def ask(self):
        """Ask for the next assignment and hold it to everything that is promised of a step."""
        before, up = self.assignment, None
        if self.resting:
            up = [node_id for node_id in self.topology.ids if node_id not in self.resting]
        after = balance.optimal(
            self.partitions, self.replicas, self.topology, previous=before, live=up, spread="best-effort"
        )
        balance.verify(after, previous=before, topology=self.topology)
        invariants.lists_are_spread(after, up)
        pure = balance.optimal(self.partitions, self.replicas, self.topology, previous=before, spread="best-effort")
        assert pure.rows == after.home_rows, "home is a function of home and the topology"
        self.assignment = after

    def up(self):
        """Return the nodes that are up and may own."""
        return [node for node in self.topology if node.weight and node.id not in self.resting]

    @rule(zone=zones, weight=st.sampled_from(WEIGHTS))
    def join(self, zone, weight):
        """A node comes, if there are not too many."""
        if len(self.topology) < 12:
            self.joined += 1
            self.topology = self.topology.add(Node(f"m{self.joined:03}", zone=(zone,), weight=weight))
            self.ask()

    @precondition(lambda self: len(self.up()) > 1)
    @rule(data=st.data())
    def lose(self, data):
        """A node goes for good."""
        node = data.draw(st.sampled_from(self.up()))
        self.topology = self.topology.without(node.id)
        self.ask()

    @precondition(lambda self: len(self.up()) > 1)
    @rule(data=st.data())
    def rest(self, data):
        """A node goes down, and will come back."""
        self.resting.add(data.draw(st.sampled_from(self.up())).id)
        self.ask()

    @precondition(lambda self: self.resting)
    @rule(data=st.data())
    def come_back(self, data):
        """A node is up again."""
        self.resting.remove(data.draw(st.sampled_from(sorted(self.resting))))
        self.ask()

    @precondition(lambda self: self.resting)
    @rule()
    def all_come_back(self):
        """All nodes are up again: lists are those of home."""
        home = self.assignment.home_rows
        self.resting.clear()
        self.ask()
        assert home == self.assignment.rows
        assert 0 == self.assignment.certificate.home.moves

    @rule(data=st.data(), weight=st.sampled_from(WEIGHTS))
    def reweigh(self, data, weight):
        """A node, perhaps one that drains, gets another weight."""
        self.topology = self.topology.reweight(data.draw(st.sampled_from(self.topology.ids)), weight)
        self.ask()

    @precondition(lambda self: len(self.up()) > 1)
    @rule(data=st.data())
    def drain(self, data):
        """A node is to hold nothing."""
        self.topology = self.topology.drain(data.draw(st.sampled_from(self.up())).id)
        self.ask()

    @rule(data=st.data(), count=st.integers(1, 5))
    def add_partitions(self, data, count):
        """Partitions are created."""
        fresh = data.draw(st.lists(st.integers(100, 140), min_size=count, max_size=count, unique=True))
        self.partitions = sorted({*self.partitions, *(f"p{number}" for number in fresh)})
        self.ask()

    @precondition(lambda self: len(self.partitions) > 3)
    @rule(data=st.data())
    def drop_partitions(self, data):
        """Partitions are dropped."""
        self.partitions = self.partitions[data.draw(st.integers(1, 3)) :]
        self.ask()

    @rule(replicas=st.integers(1, 4))
    def ask_for_replicas(self, replicas):
        """Another number of replicas is asked for."""
        self.replicas = replicas
        self.ask()

    @invariant()
    def asking_again_moves_nothing(self):
        """What was asked for once is what asking again gives."""
        before = self.assignment
        up = [node_id for node_id in self.topology.ids if node_id not in self.resting]
        again = balance.optimal(
            self.partitions, self.replicas, self.topology, previous=before, live=up, spread="best-effort"
        )
        assert before.home_rows == again.home_rows
        assert (0, 0) == (again.certificate.home.moves, again.certificate.home.leader_changes)


TestAYear = Year.TestCase
TestAYear.settings = settings(max_examples=25, stateful_step_count=20)


class LongYear(Year):
    """The same, for longer."""


TestALongYear = pytest.mark.slow(LongYear.TestCase)
TestALongYear.settings = settings(max_examples=50, stateful_step_count=60)


class LongYears(Year):
    """The same, for longer and more often."""


TestLongYears = pytest.mark.soak(LongYears.TestCase)
TestLongYears.settings = settings(max_examples=150, stateful_step_count=60)
