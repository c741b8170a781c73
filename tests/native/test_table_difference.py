"""The difference of two saved tables in the twin is that of the reference, to the position."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import Ring, Table, Topology, decode, encode, native, plan
from apportion.errors import InvalidInput
from tests import invariants, worlds
from tests.native.comparing import answered_by_the_twin, hammered, needs_twin

pytestmark = needs_twin

EDGES = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]


def agreed(old, new):
    """Return the difference on which twin and reference agree."""
    expected = old._overlaid(new)
    with answered_by_the_twin(len(old.starts) + len(new.starts)):
        found = old.diff(new)
    assert expected == found
    assert all(type(each) is tuple for change in found for each in (change.before, change.after))
    return found


@given(worlds.tables(), worlds.tables())
def test_any_two_tables(old, new):
    for one, other in ((old, new), (new, old), (old, old)):
        agreed(one, other)
    invariants.diff_is_exact(old, new)
    invariants.plan_is_exact(plan(old, new), old, new)


@given(st.data(), worlds.topologies, worlds.topologies)
def test_tables_whose_boundaries_are_the_same_or_at_the_ends_of_words(data, one, other):
    tables = []
    for topology in (one, other):
        starts = (0, *sorted(data.draw(st.sets(st.sampled_from(EDGES[1:])))))
        rows = st.lists(st.integers(0, len(topology) - 1), min_size=1, max_size=3, unique=True).map(tuple)
        drawn = data.draw(st.lists(rows, min_size=len(starts), max_size=len(starts)))
        tables.append(Table(topology=topology, hasher="xxh3-64", starts=starts, rows=tuple(drawn)))
    agreed(*tables)


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("changed", [lambda fleet: fleet.add("zz"), lambda fleet: fleet.add("00"), lambda fleet: fleet])
def test_saved_tables_of_rings(changed, replicas):
    ring = Ring([f"node-{number}" for number in range(50)], vnodes=40)
    after = ring.on(changed(ring.topology))
    old, new = (decode(encode(each.table(replicas)), Table) for each in (ring, after))
    agreed(old, new)
    agreed(new, Ring(["other"]).table())


@pytest.mark.slow
def test_tables_of_more_nodes_than_16_bits_count():
    random, ids = Random(5), [f"n{number}" for number in range(70_000)]
    old, new = Topology(ids), Topology(ids[1:])
    starts = (0, *sorted({random.randrange(1, 2**64) for _ in range(5000)}))
    owners = [ids[random.randrange(1, 70_000)] for _ in starts]
    tables = [
        Table(topology=each, hasher="xxh3-64", starts=starts, rows=tuple((each.index(node_id),) for node_id in owners))
        for each in (old, new)
    ]
    assert () == agreed(*tables)
    moved = Table(topology=new, hasher="xxh3-64", starts=starts, rows=((69_998,), *tables[1].rows[1:]))
    assert [(owners[0],)] == [change.before for change in agreed(tables[0], moved)]


def test_neighbours_that_change_are_as_few_as_can_be():
    old, new = (
        worlds.table_of([(0, (first,)), (10, (second,))], Topology(["a", "b"])) for first, second in ("ab", "ba")
    )
    changes = agreed(old, new)
    assert [(0, 10), (10, 2**64)] == [(change.item.start, change.item.end) for change in changes]
    assert all(one.item.end <= other.item.start for one, other in pairwise(changes))


def test_tables_of_bytes_are_compared_by_the_reference():
    old, new = (
        Table(topology=Topology(["a", "b"]), hasher="bytes-order", starts=(b"", middle), rows=((0,), (1,)))
        for middle in (b"g", b"h")
    )
    with answered_by_the_twin(0):
        (change,) = old.diff(new)
    assert (b"g", b"h") == (change.item.start, change.item.end)
    with pytest.raises(InvalidInput, match="hasher"):
        old.diff(worlds.table_of([(0, ("a",))], Topology(["a"])))


def test_sixteen_threads_of_python_at_once():
    ring = Ring([f"node-{number}" for number in range(20)], vnodes=20)
    old, new = ring.table(), ring.on(ring.topology.add("more")).table()
    assert {old._overlaid(new)} == hammered(lambda _: old.diff(new), rounds=20)


@pytest.mark.parametrize(
    "columns",
    [
        ((), ()), ((0,), ()), ((0, 5), ((0,),)), ((0,), ((1,),)), ((0,), ((-1,),)), ((0,), ((2**32,),)),
        ((-1,), ((0,),)), ((2**64,), ((0,),)), ((b"",), ((0,),)), ((0,), ([0],)), ((0,), (("a",),)),
        ((0.0,), ((0,),)), ([0], ((0,),)),
    ],
    ids=range(13),
)  # fmt: skip
def test_what_is_no_table_stops_in_python(columns):
    sound = ((0,), ((0,),))
    for pair in ((columns, sound), (sound, columns)):
        with pytest.raises((ValueError, OverflowError, TypeError)):
            native.extension.table_changes(*pair, [0], 1)
    assert [] == native.extension.table_changes(sound, sound, [0], 1)
