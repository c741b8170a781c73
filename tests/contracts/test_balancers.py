"""Every balancer of the catalog keeps the promises of its spec, for a question that all of them are asked."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion import balance
from apportion.balance.api import BalancerSpec, GroupView
from apportion.errors import InvalidInput, UnknownOption
from apportion.model.assignment import Assignment
from apportion.model.topology import Node, Topology

SPECS = [balance.get(name) for name in balance.names()]
MEMBERS = st.sets(st.sampled_from([f"node-{number}" for number in range(9)]), min_size=1, max_size=7)


def assigned(owners, topology):
    """Return owners as an assignment, of which some may be gone."""
    known = Topology({*topology.ids, *owners})
    rows = [(known.ids.index(owner),) for owner in owners]
    return Assignment(topology=known, rows=rows)


def views(histories, partitions, spec, *, weight=lambda _: 1):
    """Yield each view with the balancer's answer, each from the answer before."""
    previous = None
    for ids in histories:
        topology = Topology(Node(each, weight=weight(each)) for each in sorted(ids))
        view = GroupView(name="work", partitions=partitions, topology=topology, previous=previous)
        owners = spec.owners(view)
        yield view, owners
        previous = assigned(owners, topology)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
@given(histories=st.lists(MEMBERS, min_size=1, max_size=4), partitions=st.integers(1, 40))
def test_every_partition_gets_one_of_those_who_may_own_it_and_always_the_same(spec, histories, partitions):
    for view, owners in views(histories, partitions, spec):
        assert partitions == len(owners)
        assert set(owners) <= set(view.topology.ids)
        assert owners == spec.owners(view)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.even], ids=lambda spec: spec.name)
@given(histories=st.lists(MEMBERS, min_size=1, max_size=4), partitions=st.integers(1, 40))
def test_loads_differ_by_one_at_most(spec, histories, partitions):
    for view, owners in views(histories, partitions, spec):
        loads = [owners.count(each) for each in view.topology.ids]
        assert max(loads) - min(loads) <= 1


def test_the_balancer_of_groups_promises_all_that_can_be_promised():
    spec = balance.get("optimal")
    assert (True, True, True, True) == (spec.weighted, spec.zoned, spec.even, spec.minimal_movement)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.minimal_movement], ids=lambda spec: spec.name)
@given(histories=st.lists(MEMBERS, min_size=2, max_size=4), partitions=st.integers(1, 40))
def test_no_more_moves_than_evenness_asks_for(spec, histories, partitions):
    for view, owners in views(histories, partitions, spec):
        if view.previous is not None:
            before = [view.previous.topology.ids[row[0]] for row in view.previous.rows]
            moved = sum(old != new for old, new in zip(before, owners, strict=True))
            assert moved == least_moves(before, view.topology.ids)


def least_moves(before, ids):
    """Return the least number of moves: those above the usable ceilings, and those that no node may keep."""
    floor, spare = divmod(len(before), len(ids))
    kept = 0
    for load in sorted((before.count(each) for each in ids), reverse=True):
        most = floor + (spare > 0)
        spare -= most > floor and load > floor
        kept += min(load, most)
    return len(before) - kept


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.weighted], ids=lambda spec: spec.name)
def test_shares_follow_weights(spec):
    heavy = {f"node-{number}": 1 + number % 2 for number in range(6)}
    ((view, owners),) = views([heavy], 1800, spec, weight=heavy.get)
    for each in view.topology.ids:
        assert abs(Fraction(owners.count(each), 1800) - Fraction(heavy[each], 9)) < Fraction(heavy[each], 20)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_who_drains_owns_nothing(spec):
    ((_, owners),) = views([{"a", "b", "c"}], 60, spec, weight={"a": 1, "b": 0, "c": 1}.get)
    assert {"a", "c"} == set(owners)


ODD = {
    "tiny": Node("a", weight=1e-6), "huge": Node("b", weight=1e9), "slashes": Node("c", zone=("x/y",)),
    "levels": Node("d", zone=("x", "y")), "bare": Node("z"), "its name": Node("e", zone=("z",)),
}  # fmt: skip


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("names", [[each] for each in ODD] + [["slashes", "levels"], ["bare", "its name"], [*ODD]])
def test_whatever_members_have_a_group_is_answered(spec, names):
    topology = Topology(ODD[name] for name in names)
    owners = spec.owners(GroupView(name="work", partitions=20, topology=topology))
    assert set(owners) <= set(topology.ids)


def test_an_unknown_balancer_names_the_nearest():
    with pytest.raises(UnknownOption, match="optimal"):
        balance.get("optimum")
    with pytest.raises(UnknownOption, match="balancer is 'scores'"):  # a file of the room, but no balancer
        balance.get("scores")
    with pytest.raises(UnknownOption, match="balancer"):
        balance.get(None)


def test_a_spec_that_takes_what_nobody_asks_is_refused():
    with pytest.raises(UnknownOption, match="input of balancer 'optimal' is 'topologie'") as caught:
        replace(balance.get("optimal"), takes="topologie")
    assert "topology" == caught.value.nearest


def test_what_an_entry_point_adds_is_found_and_what_is_none_is_refused(monkeypatch):
    class Entry:
        name = "mine"

        def __init__(self, found):
            self.load = lambda: found

    mine = BalancerSpec(
        name="mine", assign=max, owners=lambda view: (view.topology.ids[0],) * view.partitions, source="us",
        takes="topology", weighted=False, zoned=False, even=False, minimal_movement=False,
    )  # fmt: skip
    monkeypatch.setattr("apportion.runtime.entry_points.installed", lambda group: [Entry(mine)])
    assert mine is balance.get("mine")
    assert "mine" in balance.names()
    assert 3 == balance.get("mine")(1, 3)
    monkeypatch.setattr("apportion.runtime.entry_points.installed", lambda group: [Entry(max)])
    with pytest.raises(InvalidInput, match="BalancerSpec"):
        balance.get("mine")


@pytest.mark.parametrize("error", [ImportError("no module 'ours'"), AttributeError("no 'SPEC'")])
def test_an_entry_point_that_cannot_be_loaded_is_refused_and_named(monkeypatch, error):
    class Entry:
        name = "mine"

        def load(self):
            raise error

    monkeypatch.setattr("apportion.runtime.entry_points.installed", lambda group: [Entry()])
    with pytest.raises(InvalidInput, match=r"entry point 'mine' .* is .*no .*expected one that can be imported"):
        balance.get("mine")
