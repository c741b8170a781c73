"""Mistakes with plans, snapshots and tables: each error names the value, an expectation and the next step."""

import pytest

from tests.mistakes import check_refused, mistakes

MISTAKES = """
# plan/apply
plan(ring, None) | new is None | Build one, say Ring(topology).
plan(None, ring) | old is None | Build one, say Ring(topology).
plan(ring, ["a", "b"]) | new is a list | Build one, say Ring(topology).
plan(ring, topology) | new is a Topology | Build one, say Ring(topology).
plan(topology, topology) | old is a Topology | Build one, say Ring(topology).
plan(ring, Ring) | new is an ABCMeta | Build one, say Ring(topology).
plan(ring, "new") | new is 'new' | Build one, say Ring(topology).
plan(ring, ring, replicas=0) | count of nodes is 0 | Ask for the owner alone with 1.
plan(ring, ring, replicas="2") | count of nodes is '2' | Ask for the owner alone with 1.
plan(ring, ring, replicas=9) | 9 replicas wanted on distinct nodes, 3 eligible (a, b, c) | Add nodes, or ask for fewer
plan(ring, ring, "k") | keys is 'k' | Put a single key in a list, or route() it.
plan(ring, ring, keys=3) | keys is 3 | Put a single key in a list, or route() it.
plan(ring, ring, [None]) | key is None | Convert it: bytes(key) for buffers,
plan(Jump(["a"]), Jump(["a", "b"])) | keys is None | Pass keys=[...], real ones if you can;
plan(Jump(["a"]), Jump(["a", "b"]), []) | keys is 'an empty list' | Pass the keys to count.
plan(table, assignment) | the other side of the plan is a Table | For Slots, compare their assignments:
plan(assignment, ring) | the other side of the plan is a Ring | For Slots, compare their assignments:
plan(ring, Ring(["a"], hasher="md5")) | hasher is 'md5' | Compare different hashers over keys:
plan(Ring(Topology(["a"], cluster="x")), Ring(Topology(["a"], cluster="y"))) | cluster is 'y' | Compare placements of
apply(change, ring) | table is a Ring | Pass the table() of a placement.
apply(table, change) | change is a Table | Make one with plan(old, new).
apply(change, assignment) | table is an Assignment | Pass the table() of a placement.
apply(change, None) | table is None | Pass the table() of a placement.
apply(saved, table) | change is b'{"apportion":"table","format_version":2,"cluster":"","chec… (7156 long) | Make one
apply(change, apply(change, table)) | the change was made from epoch 1:69fbcd94, but the current epoch | Nothing was
change.is_stray("k") | move is 'k' | Pass one of plan.moves.
Throttle(per_node=0) | per_node of the throttle is 0 | Nothing would ever move; use None for no
Throttle(per_node="2") | per_node of the throttle is '2' | Nothing would ever move; use None for no
Throttle(per_node=1.5) | per_node of the throttle is 1.5 | Nothing would ever move; use None for no
Throttle(per_node=-1) | per_node of the throttle is -1 | Nothing would ever move; use None for no
Throttle(expires_at="soon") | expires_at of the throttle is 'soon' | Use time.time(), or datetime.timestamp().
Throttle(then=3) | then of the throttle is 3 | Write Throttle(...).
Throttle(per_node=2).at("now") | now is 'now' | Use time.time(), or datetime.timestamp().
handover(Ring(Topology(["a"], cluster="x")), Ring(["a"]), "k") | cluster is '' | Compare placements of
# snapshots
encode(ring) | snapshot kind is 'Ring' | Save the table() or the assignment of a
encode(None) | snapshot kind is 'NoneType' | Save the table() or the assignment of a
encode({"a": 1}) | snapshot kind is 'dict' | Save the table() or the assignment of a
decode(saved, "topology") | snapshot kind is 'topology' | Save the table() or the assignment of a
decode(saved, None) | snapshot kind is None | Save the table() or the assignment of a
decode(saved, dict) | snapshot kind is 'dict' | Save the table() or the assignment of a
decode(saved, Ring) | snapshot kind is 'Ring' | Save the table() or the assignment of a
decode("text", Topology) | snapshot is 'text' | Open the file in binary mode.
decode(None, Topology) | snapshot is None | Open the file in binary mode.
decode(b"", Topology) | snapshot is b'' | Check that it is the right file, and
decode(b"junk", Topology) | snapshot is b'junk' | Check that it is the right file, and
decode(b"{}", Topology) | snapshot is b'{}' | Check that it is the right file, and
decode(b'{"nodes": ["a"]}', Topology) | snapshot is b'{"nodes": ["a"]}' | Check that it is the right file, and
decode(saved[:-10], Topology) | snapshot kind is 'table' | Pass a snapshot of that kind.
decode(saved + b"x", Topology) | snapshot kind is 'table' | Pass a snapshot of that kind.
decode(saved, Topology, cluster="other") | snapshot kind is 'table' | Pass a snapshot of that kind.
decode(saved, Topology, cluster=3) | snapshot kind is 'table' | Pass a snapshot of that kind.
decode(saved, [Topology]) | snapshot kind is a list | Save the table() or
decode(saved.replace(b'"format_version":1', b'"format_version":9'), Topology) | snapshot kind is 'table' | Pass a
decode("/tmp/file.json", Table) | snapshot is '/tmp/file.json' | Open the file in binary mode.
Frozen(ring) | table is a Ring | Pass the table() of a placement that hashes
Frozen(assignment) | table is an Assignment | Pass the table() of a placement that hashes
Frozen(saved) | table is b'{"apportion":"table","format_version":2,"cluster":"","chec… (7156 long) | Pass the table()
Frozen(None) | table is None | Pass the table() of a placement that hashes
Frozen.load("t.json") | snapshot is 't.json' | Open the file in binary mode.
Frozen.load(encode(assignment)) | snapshot kind is 'assignment' | Pass a snapshot of that kind.
Frozen.load(encode(table), hasher="md5") | hasher is 'md5' | Leave it out, or pass the right one.
Frozen.load(encode(table), cluster="other") | cluster is '' | It belongs to another cluster; pick the
Frozen.load(encode(table)).route(None) | key is None | Convert it: bytes(key) for buffers,
Frozen.load(encode(table)).preference("k", 3) | 3 replicas wanted from a table of 1 per range, 1 eligible (b) | Ask
table.owners("k") | position is 'k' | Give bounds as positions.
table.owners(-1) | position is -1 | Give bounds as positions.
table.owners(1.5) | position is 1.5 | Give bounds as positions.
table.range_at("k") | position is 'k' | Give bounds as positions.
table.diff(ring) | new is a Ring | Pass the table() of a placement.
table.diff(None) | new is None | Pass the table() of a placement.
Table.from_ranges([], topology=topology, hasher="xxh3-64") | range start is 18446744073709551616 | Let each range
Table.from_ranges([("a", "b")], topology=topology, hasher="xxh3-64") | range is a tuple | Write [(KeyRange(0, 2**64),
Table.from_ranges([(KeyRange(0, 2**64), "a")], topology=topology, hasher="xxh3-64") | range is 'a' | Write
Table.from_ranges([(KeyRange(0, 2**64), ("z",))], topology=topology, hasher="xxh3-64") | node id is 'z' | Add the node
Table.from_ranges([(KeyRange(0, 2**64), ())], topology=topology, hasher="xxh3-64") | table row is '()' | List each
Table.from_ranges(None, topology=topology, hasher="xxh3-64") | ranges is None | Write [(KeyRange(0, 2**64), ("a",))].
Table.from_ranges([(KeyRange(0, 2**64), ("a",))], topology=["a"], hasher="xxh3-64") | topology is a list | Wrap the
Table.from_ranges([(KeyRange(0, 2**64), ("a",))], topology=topology, hasher=None) | hasher is None | Pass a
Table(topology=topology, hasher="xxh3-64", starts=(0,), rows=((9,),)) | table row is '(9,)' | List each owner once.
Table(topology=topology, hasher="xxh3-64", starts=(1,), rows=((0,),)) | table start is 1 | Begin the table at the
Table(topology=topology, hasher="xxh3-64", starts=(0, 5), rows=((0,),)) | table rows is 1 | Give every start its row
table.changed(None, topology) | changes is None | Pass the changes of a plan: plan.changes.
table.changed(change.changes, None) | topology is None | Pass the topology that the plan leads to:
table.changed([("a", "b")], topology) | changes is a list | Pass the changes of a plan: plan.changes.
KeyRange("a", "b") | range start is 'a' | Give bounds as positions.
KeyRange(None, None) | range start is None | Give bounds as positions.
KeyRange(0, 2**65) | range end is 36893488147419103232, expected an int in 0 .. 2**64, or | Give bounds as positions.
KeyRange(5, 3) | range end is 3 | Swap the bounds, or drop an empty range.
KeyRange(1.5, 3) | range start is 1.5 | Give bounds as positions.
Epoch(number=-1, digest="x") | epoch number is -1 | Count epochs up from 1.
Epoch(number=1, digest="x") | epoch digest is 'x' | Take it from a saved table or plan.
Epoch(number=1, digest=None) | epoch digest is None | Take it from a saved table or plan.
"""


@pytest.mark.parametrize(("call", "problem", "hint"), mistakes(MISTAKES))
def test_a_mistake_names_the_value_an_expectation_and_the_next_step(call, problem, hint):
    check_refused(call, problem, hint)
