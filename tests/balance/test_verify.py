"""`verify` believes nothing: whatever is changed in an assignment or its certificate, it refuses what is not so."""

import ast
import pickle
from dataclasses import replace
from importlib import import_module
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from apportion import Assignment, Node, Rendezvous, Topology, balance
from apportion.balance.optimal import start as begin
from apportion.balance.request import OptimalRequest
from apportion.balance.solver.repair import Elsewhere, demand_on, repair
from apportion.errors import InvalidInput
from apportion.model.assignment import Rule
from apportion.model.epoch import content_digest

NODES = [Node(f"n{number:02}", zone=(f"z{number % 4}",)) for number in range(12)]
SEEDS = range(4)


def steps_of(seed):
    """Return a previous assignment and one made from it, on random nodes with and without weights."""
    random = Random(seed)
    weights = (1,) if seed % 2 else (1, 1, 2)
    nodes = [Node(node.id, zone=node.zone, weight=random.choice(weights)) for node in NODES]
    before = balance.optimal(40, 3, Topology(nodes[:10]))
    return before, balance.optimal(40, 3, Topology(nodes[1:]), previous=before)


def refused(assignment, message, **options):
    """Hold that an assignment is refused, and why."""
    with pytest.raises(InvalidInput, match=message) as raised:
        balance.verify(assignment, **options)
    assert raised.value.hint


def with_rows(assignment, rows):
    """Return an assignment with other rows, the leader first, and its certificate."""
    return replace(assignment, rows=tuple(map(tuple, rows)))


def with_proof(assignment, **changes):
    """Return an assignment with other facts in the proof of its home."""
    certificate = assignment.certificate
    return replace(assignment, certificate=replace(certificate, home=replace(certificate.home, **changes)))


def even_cycle(assignment, previous):
    """Return rows in which two partitions have swapped replicas of two nodes, one or both for nothing."""
    rows, ids = [list(row) for row in assignment.rows], assignment.topology.ids
    zones = [node.fault_domain() for node in assignment.topology]
    for left, right in permutations(range(len(rows)), 2):
        for one, other in ((one, other) for one in rows[left] for other in rows[right]):
            can_swap = one not in rows[right] and other not in rows[left] and zones[one] == zones[other]
            if can_swap and ids[one] in previous[left] and ids[other] in previous[right]:
                rows[left][rows[left].index(one)] = other
                rows[right][rows[right].index(other)] = one
                return rows
    raise AssertionError("no two replicas to swap")


@pytest.mark.parametrize("seed", SEEDS)
def test_what_optimal_made_is_verified(seed):
    before, after = steps_of(seed)
    verdict = balance.verify(after, previous=before, topology=after.topology)
    assert len(after.moves_from(before)) == verdict.moves == after.certificate.home.moves
    assert (False, 120, 0, 0) == (
        verdict.is_first,
        verdict.replicas,
        verdict.repair_moves,
        verdict.repair_leader_changes,
    )
    assert f"verified: {verdict.moves} of 120 replicas move, the proven minimum" == str(verdict)


def test_a_verdict_speaks_of_the_repair_and_of_first_lists():
    before, _ = steps_of(1)
    away = balance.optimal(40, 3, before.topology, previous=before, live=before.topology.ids[1:])
    repair = away.certificate.current.moves
    assert f"verified: 0 of 120 replicas move, the proven minimum, {repair} more while nodes are down" == str(
        balance.verify(away, previous=before)
    )
    assert "replicas differ from rendezvous lists" in str(balance.verify(before))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_needless_even_cycle_is_refused(seed):
    before, after = steps_of(seed)
    cycled = with_rows(after, even_cycle(after, before))
    assert after.loads == cycled.loads
    refused(cycled, "moves that the prices prove|partitions led by|changes of leader", previous=before)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_needless_even_cycle_is_refused_with_forged_moves_too(seed):
    before, after = steps_of(seed)
    cycled = with_rows(after, even_cycle(after, before))
    moves = len(cycled.moves_from(before))
    assert moves > after.certificate.home.moves
    refused(with_proof(cycled, moves=moves), "moves that the prices prove", previous=before)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_first_assignment_proves_that_it_is_near_its_rendezvous_lists_and_no_forged_loads_help(seed):
    first, _ = steps_of(seed)
    cycled = with_rows(first, even_cycle(first, first))
    refused(cycled, "moves that the prices prove")
    # Capacities may be exact, for the sake of other resources, but only those of the loads as they are.
    forged = tuple(load + (place == 0) for place, load in enumerate(first.loads.values()))
    for loads in (forged, (0,) * len(forged)):
        refused(with_proof(cycled, least=loads, most=loads), "capacity of .* in the certificate|moves that the prices")
    for price in (-1, 1):
        prices = (price, *(0 for _ in first.loads))[:-1]
        for load in range(-3, 4):
            loads = (load, *first.loads.values())[:-1]
            refused(with_proof(cycled, least=loads, most=loads, prices=prices), "capacity of|moves that the prices")


@pytest.mark.parametrize("seed", SEEDS)
def test_first_loads_that_do_not_add_up_prove_nothing(seed):
    first, _ = steps_of(seed)
    cycled = with_rows(first, even_cycle(first, first))
    rendezvous, loads = Rendezvous(first.topology), tuple(first.loads.values())
    lists = cycled.preference_lists.items()
    placed = sum(len(set(owners).difference(rendezvous.preference(each, 3))) for each, owners in lists)
    # At a price of 1 for all, every replica pays 1: leaving out as many from the loads hides as many moves.
    short = (loads[0] - placed, *loads[1:])
    forged = with_proof(cycled, least=short, most=short, moves=placed, prices=(1,) * len(loads))
    refused(forged, "capacity of n00 in the certificate")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("by", [-1, 1])
def test_other_moves_or_changes_of_leader_than_there_are_are_refused(seed, by):
    before, after = steps_of(seed)
    home = after.certificate.home
    refused(with_proof(after, moves=home.moves + by), "moves of the certificate", previous=before)
    changed = with_proof(after, leader_changes=home.leader_changes + by)
    refused(changed, "leader changes of the certificate", previous=before)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("field", ["prices", "leader_prices"])
def test_a_price_that_proves_less_is_refused_and_one_that_proves_as_much_is_none_the_worse(seed, field):
    before, after = steps_of(seed)
    prices = getattr(after.certificate.home, field)
    verdict, refusals = balance.verify(after, previous=before), []
    for place in range(len(prices)):
        for by in (-3, -1, 1, 3):
            altered = (*prices[:place], prices[place] + by, *prices[place + 1 :])
            try:
                assert verdict == balance.verify(with_proof(after, **{field: altered}), previous=before)
            except InvalidInput as error:
                refusals.append(error.field)
    assert {"moves that the prices prove", "changes of leader that the prices prove"} >= set(refusals)
    assert len(refusals) > len(prices)


@pytest.mark.parametrize("field", ["prices", "leader_prices"])
@pytest.mark.parametrize("change", [lambda prices: prices[1:], lambda prices: (0.5, *prices[1:]), lambda prices: ()])
def test_prices_are_one_integer_a_node(field, change):
    before, after = steps_of(1)
    altered = with_proof(after, **{field: change(getattr(after.certificate.home, field))})
    refused(altered, "prices of the certificate is .*, expected 11 integers", previous=before)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_price_for_all_proves_the_same(seed):
    before, after = steps_of(seed)
    shifted = tuple(price + 5 for price in after.certificate.home.prices)
    assert balance.verify(after, previous=before) == balance.verify(with_proof(after, prices=shifted), previous=before)


@pytest.mark.parametrize("by", [(1, 0), (0, -1), (-1, 0), (0, 1), (-2, -2)])
def test_capacities_that_leave_out_an_even_load_or_span_more_than_one_are_refused(by):
    before, after = steps_of(0)
    home = after.certificate.home
    assert home.least[0] < home.most[0], "a load that is not exact"
    least, most = (home.least[0] + by[0], *home.least[1:]), (home.most[0] + by[1], *home.most[1:])
    refused(with_proof(after, least=least, most=most), "capacity of n01 in the certificate", previous=before)


def test_capacities_of_each_node_are_wanted():
    before, after = steps_of(0)
    home = after.certificate.home
    refused(with_proof(after, least=home.least[1:]), "capacities of the certificate", previous=before)
    refused(with_proof(after, most=()), "capacities of the certificate", previous=before)
    refused(with_proof(after, least=("1", *home.least[1:])), "capacities of the certificate", previous=before)


@pytest.mark.parametrize("seed", SEEDS)
def test_another_previous_is_refused(seed):
    before, after = steps_of(seed)
    swapped = with_rows(before, [before.rows[1], before.rows[0], *before.rows[2:]])
    for previous in (None, after, swapped, steps_of(seed + 11)[0]):
        refused(after, "previous of the certificate", previous=previous)
    refused(before, "previous of the certificate", previous=after)


@pytest.mark.parametrize("seed", SEEDS)
def test_another_previous_is_refused_even_where_its_digest_has_been_forged(seed):
    before, after = steps_of(seed)
    worse = with_rows(after, even_cycle(after, before))
    certificate = replace(after.certificate, previous=worse.epoch.digest)
    refused(replace(after, certificate=certificate), "moves|leader", previous=worse)


@pytest.mark.parametrize(
    "change",
    [
        lambda topology: topology.add("more"),
        lambda topology: topology.without("n05"),
        lambda topology: topology.reweight("n05", 7),
        lambda topology: topology.drain("n05"),
        lambda topology: Topology(topology.nodes, cluster="other"),
        lambda topology: topology.without("n05").add(Node("n05", zone=("elsewhere",))),
    ],
)
def test_another_topology_is_refused(change):
    before, after = steps_of(1)
    refused(after, "topology of the certificate", previous=before, topology=change(after.topology))


def test_an_assignment_moved_to_another_topology_is_refused():
    before, after = steps_of(1)
    moved = replace(after, topology=after.topology.reweight("n05", 3))
    refused(moved, "topology of the", previous=before, topology=moved.topology)
    refused(moved, "topology of the", previous=before, topology=after.topology)
    forged = replace(moved, certificate=replace(after.certificate, topology=moved.topology.epoch.digest))
    refused(forged, "loads of the assignment|capacity|moves", previous=before)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_replica_too_few_too_many_or_on_a_zone_twice_is_refused(seed):
    before, after = steps_of(seed)
    zones = [node.fault_domain() for node in after.topology]
    first = after.rows[0]
    crowding = next(node for node in range(len(zones)) if zones[node] == zones[first[0]] and node != first[0])
    further = next(node for node in range(len(zones)) if zones[node] not in {zones[each] for each in first})
    for row in (first[:-1], (*first, further), (first[0], crowding, *first[2:]), ()):
        refused(with_rows(after, [row, *after.rows[1:]]), "owners of '0'", previous=before)


def test_a_replica_on_a_node_that_drains_or_is_down_is_refused():
    _, after = steps_of(1)
    drained = balance.optimal(40, 3, after.topology.drain("n05"), previous=after)
    refused(with_rows(drained, after.rows), "owners of", previous=after)
    up = [node_id for node_id in after.topology.ids if node_id != "n05"]
    away = balance.optimal(40, 3, after.topology, previous=after, live=up)
    refused(with_rows(away, away.home), "owners of", previous=after)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_needless_change_of_leader_is_refused(seed):
    before, after = steps_of(seed)
    rows = [list(row) for row in after.rows]
    lists = before.preference_lists.values()
    place = next(
        place for place, (row, old) in enumerate(zip(rows, lists, strict=True)) if after.topology.ids[row[0]] == old[0]
    )
    rows[place] = [*rows[place][1:], rows[place][0]]
    changed = with_rows(after, rows)
    refused(changed, "partitions led by|changes of leader that the prices prove", previous=before)
    changes = after.certificate.home.leader_changes + 1
    refused(with_proof(changed, leader_changes=changes), "partitions led by|changes of leader that", previous=before)


@pytest.mark.parametrize("seed", SEEDS)
def test_uneven_leaders_are_refused_though_none_changed_that_could_stay(seed):
    before, after = steps_of(seed)
    old = [after.topology.index(owners[0]) if owners[0] in after.topology else None for owners in lists_of(before)]
    stays = [[leader, *(node for node in row if node != leader)] for row, leader in zip(after.rows, old, strict=True)]
    rows = [led if led[0] in row else row for led, row in zip(stays, after.rows, strict=True)]
    lazy = with_rows(after, rows)
    changes = sum(row[0] != leader for row, leader in zip(rows, old, strict=True))
    assert changes < after.certificate.home.leader_changes
    forged = with_proof(lazy, leader_changes=changes, leader_prices=(0,) * 11)
    refused(forged, "partitions led by", previous=before)


def lists_of(assignment):
    """Return the lists of owners, in order."""
    return list(assignment.preference_lists.values())


def led_in_a_ring(assignment, before):
    """Return rows in which two partitions of the same two holders have swapped leaders, which were the old ones."""
    rows, ids = [list(row) for row in assignment.rows], assignment.topology.ids
    leads = [ids[row[0]] == old[0] for row, old in zip(rows, before.preference_lists.values(), strict=True)]
    for left, right in permutations(range(len(rows)), 2):
        one, other = rows[left][0], rows[right][0]
        if leads[left] and leads[right] and one in rows[right][1:] and other in rows[left][1:]:
            rows[left] = [other, *(node for node in rows[left] if node != other)]
            rows[right] = [one, *(node for node in rows[right] if node != one)]
            return rows
    raise AssertionError("no two leaders to swap")


@pytest.mark.parametrize("seed", SEEDS)
def test_leaders_that_swapped_for_nothing_are_refused(seed):
    before, after = steps_of(seed)
    changed = with_rows(after, led_in_a_ring(after, before))
    assert after.leader_loads == changed.leader_loads
    changes = after.certificate.home.leader_changes + 2
    refused(with_proof(changed, leader_changes=changes), "changes of leader that the prices prove", previous=before)


@pytest.mark.parametrize("seed", SEEDS)
def test_uneven_loads_are_refused_though_nothing_moved(seed):
    before, after = steps_of(seed)
    still = replace(after, topology=before.topology, rows=before.rows)
    grown = before.topology.add(Node("n99", zone=("z0",)))
    certificate = replace(
        after.certificate,
        topology=grown.epoch.digest,
        previous=before.epoch.digest,
        home=replace(
            after.certificate.home, moves=0, leader_changes=0, prices=(0,) * 11, leader_prices=(0,) * 11,
            least=(*before.loads.values(), 0), most=(*before.loads.values(), 0),
        ),
    )  # fmt: skip
    lazy = replace(still, topology=grown, certificate=certificate)
    refused(lazy, "loads of the assignment", previous=before)


def test_loads_chosen_for_other_resources_are_no_excuse_for_moves():
    before, topology = balance.optimal(38, 3, Topology(NODES[:10])), Topology(NODES[1:])
    request = OptimalRequest.checked(38, topology, before, None, None)
    demand = demand_on(topology, [True] * 11, partitions=38, rule=Rule(replicas=3))
    elsewhere = Elsewhere(held=(1,) * 9 + (-1,) * 2, led=(0,) * 11)
    start = begin(request, Rule(replicas=3))
    best, step = repair(start, demand, elsewhere), repair(replace(start, is_first=True), demand, elsewhere)
    assert step.proof.moves > best.proof.moves
    forced = request.assignment(Rule(replicas=3), step, None)
    refused(forced, "capacity of n01 in the certificate is", previous=before)
    wide = with_proof(forced, least=best.proof.least, most=best.proof.most)
    refused(wide, "moves that the prices prove", previous=before)


@pytest.mark.parametrize("field", ["previous", "topology", "options"])
def test_each_digest_is_compared(field):
    before, after = steps_of(1)
    forged = replace(after, certificate=replace(after.certificate, **{field: "0" * 32}))
    refused(forged, f"{field} of the certificate", previous=before)


@pytest.mark.parametrize(
    "rule", [Rule(replicas=2), Rule(replicas=3, spread="best-effort"), Rule(replicas=3, spread_level=0)]
)
def test_another_rule_than_was_asked_for_is_refused(rule):
    before, after = steps_of(1)
    refused(replace(after, rule=rule), "options of the certificate", previous=before)


def with_options(assignment, rule):
    """Return an assignment that claims another rule, the digest of its options forged to match."""
    names = assignment.names or ()
    asked = f"{rule.replicas} {rule.spread_level} {rule.spread}", str(len(assignment.rows)), str(len(names))
    parts = (*asked, *names, *assignment.down)
    digest = content_digest(*(part.encode() for part in parts))
    return replace(assignment, rule=rule, certificate=replace(assignment.certificate, options=digest))


def test_a_strict_rule_that_cannot_hold_is_refused_however_short_its_lists():
    alone = Topology([Node("a", zone=("x",)), Node("b", zone=("y",))])
    short = balance.optimal(6, 3, alone, spread="best-effort")
    balance.verify(short)
    refused(with_options(short, Rule(replicas=3)), "replicas is '3', expected at most one in each of 2 zones")
    crowded = balance.optimal(6, 2, Topology([Node("a", zone=("x",)), Node("b", zone=("x",))]), spread="best-effort")
    refused(with_options(crowded, Rule(replicas=2)), "replicas is '2', expected at most one in each of 1 zones")


def test_the_digest_of_options_is_that_of_the_request():
    topology = Topology(["a", "b"])
    request = OptimalRequest.checked(["x", "y"], topology, None, ["b"], None)
    assert balance.optimal(["x", "y"], 1, topology, live=["b"]).certificate.options == request.digest(Rule(replicas=1))


def test_a_repair_that_is_not_the_smallest_is_refused():
    before, _ = steps_of(1)
    up = before.topology.ids[1:]
    away = balance.optimal(40, 3, before.topology, previous=before, live=up)
    home = Assignment(topology=away.topology, rows=away.home)
    cycled = with_rows(away, even_cycle(away, home))
    refused(cycled, "moves that the prices prove|partitions led|changes of leader", previous=before)
    repaired = replace(away.certificate.current, moves=len(cycled.moves_from(home)))
    certificate = replace(away.certificate, current=repaired)
    refused(replace(cycled, certificate=certificate), "moves that the prices prove", previous=before)


def test_a_repair_without_a_proof_or_a_proof_without_a_repair_is_refused():
    before, after = steps_of(1)
    up = before.topology.ids[1:]
    away = balance.optimal(40, 3, before.topology, previous=before, live=up)
    unproven = replace(away, certificate=replace(away.certificate, current=None))
    refused(unproven, "steps of the certificate", previous=before)
    certificate = replace(after.certificate, current=after.certificate.home)
    refused(replace(after, certificate=certificate), "steps of the certificate", previous=before)
    refused(replace(away, rows=away.home), "owners of", previous=before)
    refused(replace(after, home=even_rows(after)), "moves|leader|steps", previous=before)
    aside = replace(away, down=(), rows=away.home)
    refused(with_options(aside, aside.rule), "steps of the certificate", previous=before)


def even_rows(assignment):
    """Return the rows of an assignment, the first two swapped."""
    first, second, *others = assignment.rows
    return (second, first, *others)


@pytest.mark.parametrize(("assignment", "options"), [(None, {}), ("a", {}), (1, {"previous": "x"})])
def test_an_assignment_is_wanted(assignment, options):
    refused(assignment, "assignment is", **options)


def test_previous_and_topology_are_what_they_are_called():
    _, after = steps_of(1)
    refused(after, "previous is 'x', expected an Assignment", previous="x")
    refused(after, "topology is a list, expected a Topology", topology=["a"])


def test_an_assignment_without_a_certificate_is_refused():
    refused(balance.slots(Topology(["a"]), count=4), "certificate is None, expected one made by balance.optimal")
    _, after = steps_of(1)
    refused(replace(after, rule=None), "certificate is")


def test_a_certificate_survives_pickling():
    before, after = steps_of(2)
    back = pickle.loads(pickle.dumps(after))
    assert balance.verify(after, previous=before) == balance.verify(back, previous=before)
    assert after.certificate == back.certificate


def imported(module):
    """Return the rooms' files that a file of the balancer imports, and what these import in turn."""
    tree = ast.parse(Path(import_module(module).__file__).read_text())
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    own = {name for name in names if name.startswith("apportion.balance")}
    return own.union(*map(imported, own))


def test_verify_shares_no_code_with_the_solver():
    assert {"apportion.balance.solver.dual_bound", "apportion.balance.solver.fair_loads"} == imported(
        "apportion.balance.verify"
    )
    assert "apportion.balance.solver.flow" in imported("apportion.balance.optimal")
