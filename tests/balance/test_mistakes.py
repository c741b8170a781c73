"""Mistakes with assignments and balancers: each error names the value, an expectation and the next step."""

import pytest

from tests.mistakes import check_refused, mistakes

MISTAKES = """
# balance
balance.optimal(12, 1, ["a", "b"]) | topology is a list | Wrap the nodes: Topology([...]).
balance.optimal(12, 1, "ab") | topology is 'ab' | Wrap the nodes: Topology([...]).
balance.optimal(12, 1, None) | topology is None | Wrap the nodes: Topology([...]).
balance.optimal(12, topology, 1) | topology is 1 | Wrap the nodes: Topology([...]).
balance.optimal(topology, 12, 1) | topology is 1 | Wrap the nodes: Topology([...]).
balance.optimal(0, 1, topology) | partitions is 0 | Pass a count, or a list of ids.
balance.optimal(-1, 1, topology) | partitions is -1 | Pass a count, or a list of ids.
balance.optimal("12", 1, topology) | partitions is '12' | Put a single id in a list.
balance.optimal(1.5, 1, topology) | partitions is 1.5 | Put a single id in a list.
balance.optimal(None, 1, topology) | partitions is None | Put a single id in a list.
balance.optimal(["p", "p"], 1, topology) | partition id is 'p' | Drop the repeated ones; an int n means
balance.optimal([None], 1, topology) | partition id is None | Pass a string; call str(...) if
balance.optimal([1.5], 1, topology) | partition id is 1.5 | Pass a string; call str(...) if
balance.optimal([], 1, topology) | partitions is 0 | Pass a count, or a list of ids.
balance.optimal(np.int64(12), 1, topology) | partitions is an int64 | Put a single id in a list.
balance.optimal(12, 0, topology) | replicas is 0 | One replica is the owner alone.
balance.optimal(12, 3, topology) | 3 replicas wanted on distinct nodes, 2 eligible (a, b) | Add nodes, or ask for
balance.optimal(12, "2", topology) | replicas is '2' | One replica is the owner alone.
balance.optimal(12, None, topology) | replicas is None | One replica is the owner alone.
balance.optimal(12, 1, Topology()) | an assignment needs a node with a weight above 0 and the topology has none | Add
balance.optimal(12, 1, topology, live=[]) | an assignment needs a node with a weight above 0 and live has none | Name
balance.optimal(12, 1, topology, live="a") | live is 'a' | Put a single id in a list.
balance.optimal(12, 1, topology, live=["z"]) | node id is 'z' | Add the node first, or use an id of the
balance.optimal(12, 1, topology, live=3) | live is 3 | Put a single id in a list.
balance.optimal(12, 1, topology, previous=table) | previous is a Table | Pass the assignment that was made before.
balance.optimal(12, 1, topology, previous={"0": "a"}) | previous is a dict | Pass the assignment that was made before.
balance.optimal(12, 1, topology, sizes=[1]) | sizes is '1 of them' | Pass one per partition, or a
balance.optimal(12, 1, topology, sizes=[-1] * 12) | size of a partition is -1 | Leave sizes out if unknown.
balance.optimal(12, 1, topology, sizes=["1"] * 12) | size of a partition is '1' | Leave sizes out if unknown.
balance.optimal(12, 1, topology, sizes={"z": 1}) | sizes is "without '0'" | Pass 0 for an unknown size, or leave
balance.optimal(12, 1, topology, sizes=3) | sizes is 3 | Convert an array: sizes.tolist().
balance.optimal(12, 1, topology, sizes=np.ones(12)) | sizes is a ndarray | Convert an array: sizes.tolist().
balance.optimal(12, 1, topology, sizes=np.ones(12, dtype=int)) | sizes is a ndarray | Convert an array:
balance.optimal(12, 1, topology, spread="loose") | spread is 'loose' | Pick one of them.
balance.optimal(12, 1, topology, spread_level="zone") | spread_level is 'zone' | 0 is the outermost level of a zone.
balance.optimal(12, 1, topology, spread_level=-1) | spread_level is -1 | 0 is the outermost level of a zone.
balance.optimal(12, 3, zoned) | 3 replicas wanted on distinct nodes, 2 eligible (a, b) | Add nodes, or ask for fewer
balance.slots(["a", "b"]) | topology is a list | Wrap the nodes: Topology([...]).
balance.slots(topology, 16) | previous is 16 | Pass the assignment that was made before.
balance.slots(topology, count=1.5) | count of slots is 1.5 | Use about 32 slots per node, or leave it
balance.slots(topology, count="16") | count of slots is '16' | Use about 32 slots per node, or leave it
balance.slots(topology, previous=table) | previous is a Table | Pass the assignment that was made before.
balance.slots(topology, balance.slots(topology), count=7) | count of slots is 7 | Leave count out: a key's slot must
balance.slots(Topology()) | an assignment of slots needs a node with a weight above 0 and the topology has none | Add
balance.optimal_resources({"r": 12}, topology) | resources is a dict | Write {"orders": Resource(8, 3)}.
balance.optimal_resources([12], topology) | resources is a list | Write {"orders": Resource(8, 3)}.
balance.optimal_resources({"r": balance.Resource(12, 1)}, ["a"]) | topology is a list | Wrap the nodes:
balance.optimal_resources({3: balance.Resource(12, 1)}, topology) | resource is 3 | Pass a string; call str(...)
balance.schedule(assignment, table) | after is a Table | Pass an assignment, as balance.optimal
balance.schedule(assignment, None) | after is None | Pass an assignment, as balance.optimal
balance.schedule(table, table) | before is a Table | Pass an assignment, as balance.optimal
balance.schedule(assignment, assignment, throttle=2) | throttle is 2 | Write Throttle(per_node=2), or Throttle()
balance.schedule(assignment, assignment, throttle=None) | throttle is None | Write Throttle(per_node=2), or Throttle()
balance.schedule(assignment, assignment, floor="1") | floor is '1' | It counts the live replicas after a node
balance.schedule(assignment, assignment, floor=9) | floor is 9 | One node may die: assign more replicas, or
balance.schedule(assignment, assignment, lost="ignore") | lost is 'ignore' | Pick one of them.
balance.schedule(assignment, assignment, now="x") | now is 'x' | Use time.time(), or datetime.timestamp().
balance.verify(table) | assignment is a Table | Pass the assignment that balance.optimal
balance.verify(None) | assignment is None | Pass the assignment that balance.optimal
balance.verify(assignment, previous=table) | previous is a Table | Pass the assignment that balance.optimal
balance.verify(assignment, topology=["a"]) | topology is a list | Wrap the nodes: Topology([...]).
balance.succeed(ring, ["a"]) | topology is a list | Change the topology of the
balance.succeed(topology, ring) | placement is a Topology | Build one, say Ring(topology).
balance.succeed("ring", topology) | placement is 'ring' | Build one, say Ring(topology).
balance.scores.evenness(table) | assignment is a Table | Pass an assignment, as balance.optimal
balance.scores.stillness(assignment, None) | after is None | Pass an assignment, as balance.optimal
balance.scores.zone_risk(table) | assignment is a Table | Pass an assignment, as balance.optimal
balance.scores.zone_risk(assignment, spread_level="x") | spread_level is 'x' | 0 is the outermost level of a zone.
balance.get("optimall") | balancer is 'optimall' | Did you mean 'optimal'?
balance.get(None) | balancer is None | Pick one of them.
balance.get("optimal").assign(12, 1, ["a"]) | topology is a list | Wrap the nodes: Topology([...]).
assignment["p"] | partition is 'p' | Ask for a partition by its id.
assignment[99] | partition is 99 | Ask for a partition by its id.
assignment[None] | partition is None | Ask for a partition by its id.
assignment[-1] | partition is -1 | Ask for a partition by its id.
assignment.size("zz") | partition is 'zz' | Ask for a partition by its id.
assignment.changes_from(table) | before is a Table | Pass the earlier assignment.
assignment.changes_from(None) | before is None | Pass the earlier assignment.
assignment.moves_from(table) | before is a Table | Pass the earlier assignment.
Assignment(topology=topology, rows=[["a"]]) | assignment rows is a list | Write rows=((0,), (1,)).
Assignment(topology=topology, rows=((9,),)) | assignment row is '(9,)' | List each owner once.
Assignment(topology=topology, rows=((0, 0),)) | assignment row is '(0, 0)' | List each owner once.
Assignment(topology=topology, rows=None) | assignment rows is None | Write rows=((0,), (1,)).
Assignment(topology=["a"], rows=((0,),)) | topology is a list | Wrap the nodes: Topology([...]).
Assignment(topology=topology, rows=((0,),), names=("p", "q")) | names of the assignment is 2 | One per partition.
Assignment(topology=topology, rows=((0,),), names="p") | names of the assignment is 'p' | Write tuple(...) around it.
Assignment(topology=topology, rows=((-1,),)) | assignment row is '(-1,)' | List each owner once.
Assignment(topology=topology, rows=(("a",),)) | assignment row is "('a',)" | List each owner once.
Assignment(topology=topology, rows=(0, 1)) | assignment rows is a tuple | Write rows=((0,), (1,)).
Assignment(topology=topology, rows=((0,),), sizes=("1",)) | size of a partition is '1' | Leave sizes out if unknown.
Assignment(topology=topology, rows=((0,),), down=("z",)) | node id is 'z' | Add the node first, or use an id of the
Assignment(topology=topology, rows=((0,),), down="a") | down of the assignment is 'a' | Write tuple(...) around it.
balance.helix.auto("r", 4, 1, ["a"]) | topology is a list | Wrap the nodes: Topology([...]).
balance.helix.auto("r", 4, 1, topology, live=["z"]) | node id is 'z' | Add the node first, or use an id of the
balance.helix.crush("r", 4, 1, None) | topology is None | Wrap the nodes: Topology([...]).
balance.helix.model_of("x") | model is 'x' | Pick one of them.
"""


@pytest.mark.parametrize(("call", "problem", "hint"), mistakes(MISTAKES))
def test_a_mistake_names_the_value_an_expectation_and_the_next_step(call, problem, hint):
    check_refused(call, problem, hint)
