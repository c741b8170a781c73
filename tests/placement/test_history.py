"""Whatever happened before: after any history of changes a placement is the one built from scratch on what is left."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from apportion import Node, Rendezvous, Ring, Slots, Topology, balance, plan
from apportion.errors import NoNodes
from tests import invariants

NAMES = ("a", "b", "c", "d", "é")
WEIGHTS = st.sampled_from([0.5, 1, 1, 2, 3])
SLOTS = 60
KEYS = range(40)


class History(RuleBasedStateMachine):
    """Nodes come, go, drain and change weight; `weights` is what must be true, the rest is what the library makes."""

    @initialize(weight=WEIGHTS)
    def begin(self, weight):
        self.weights = {"a": weight}
        self.topology = Topology([Node("a", weight=weight)])
        self.ring, self.rendezvous = Ring(self.topology, vnodes=5), Rendezvous(self.topology)
        self.slots = Slots(balance.slots(self.topology, count=SLOTS))
        self.steps = 1

    def _go_on(self, topology):
        self.topology, self.steps = topology, self.steps + 1
        if not any(self.weights.values()):
            self._is_refused()
            return
        ring, rendezvous = self.ring.on(topology), self.rendezvous.on(topology)
        slots = Slots(balance.slots(topology, previous=self.slots.assignment))
        invariants.nothing_strays(plan(self.ring, ring))
        invariants.keys_move_only_with_cause(self.rendezvous, rendezvous, KEYS)
        invariants.slots_moved_fewest(self.slots.assignment, slots.assignment)
        self.ring, self.rendezvous, self.slots = ring, rendezvous, slots

    def _is_refused(self):
        for build in (self.ring.on, self.rendezvous.on, Ring, Rendezvous):
            with pytest.raises(NoNodes):
                build(self.topology)
        with pytest.raises(NoNodes):
            balance.slots(self.topology, previous=self.slots.assignment)

    @rule(name=st.sampled_from(NAMES), weight=WEIGHTS)
    def add(self, name, weight):
        if name not in self.weights:
            self.weights[name] = weight
            self._go_on(self.topology.add(Node(name, weight=weight)))

    @precondition(lambda self: self.weights)
    @rule(data=st.data())
    def without(self, data):
        name = data.draw(st.sampled_from(sorted(self.weights)))
        del self.weights[name]
        self._go_on(self.topology.without(name))

    @precondition(lambda self: self.weights)
    @rule(data=st.data(), weight=WEIGHTS)
    def reweight_or_refill(self, data, weight):
        name = data.draw(st.sampled_from(sorted(self.weights)))
        self.weights[name] = weight
        self._go_on(self.topology.reweight(name, weight))

    @precondition(lambda self: self.weights)
    @rule(data=st.data())
    def drain(self, data):
        name = data.draw(st.sampled_from(sorted(self.weights)))
        self.weights[name] = 0
        self._go_on(self.topology.drain(name))

    @rule()
    def drain_all_and_refill(self):
        kept = dict(self.weights)
        for name in kept:
            self.weights[name] = 0
            self._go_on(self.topology.drain(name))
        for name, weight in kept.items():
            self.weights[name] = weight
            self._go_on(self.topology.reweight(name, weight))

    @invariant()
    def the_topology_is_the_one_built_from_scratch(self):
        scratch = Topology(Node(name, weight=weight) for name, weight in self.weights.items())
        assert scratch == self.topology
        assert scratch.epoch.digest == self.topology.epoch.digest
        assert self.steps == self.topology.number

    @invariant()
    def placements_are_those_built_from_scratch(self):
        if any(self.weights.values()):
            scratch = Topology(Node(name, weight=weight) for name, weight in self.weights.items())
            assert Ring(scratch, vnodes=5) == self.ring
            assert Ring(scratch, vnodes=5).table() == self.ring.table()
            assert Rendezvous(scratch).route_many(KEYS) == self.rendezvous.route_many(KEYS)

    @invariant()
    def slots_are_even(self):
        if any(self.weights.values()):
            invariants.slots_are_even(self.slots.assignment)


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=40, stateful_step_count=12)


def test_to_empty_and_back_is_as_if_nothing_had_happened():
    topology = Topology(["a", "b"])
    ring = Ring(topology)
    refilled = topology.drain("a", "b").reweight("a", 1).reweight("b", 1)
    assert (topology, ring) == (refilled, ring.on(refilled))
    assert 4 == refilled.number
