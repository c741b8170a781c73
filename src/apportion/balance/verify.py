"""Verify: check an assignment and its certificate without the solver that made them.

Everything is counted anew from the lists, by nodes' ids and exact fractions. Four facts are checked:

- no node or zone holds a partition more often than it may;
- loads are as even as zones allow;
- the moves and changes of leader are those claimed;
- the prices of the certificate prove them the fewest (see `model.certificate`).

O(size log nodes).

Source: linear programming duality; the exchange property of M-convex sets (Murota 2003) for the evenness.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

from apportion.balance.solver.dual_bound import CheapestLists
from apportion.balance.solver.fair_loads import Box, ZoneLimits, box_of
from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.model.assignment import Assignment, PreferenceList, Rule
from apportion.model.certificate import Certificate, Proof
from apportion.model.epoch import content_digest
from apportion.model.topology import Topology
from apportion.placement.rendezvous import Rendezvous

Lists = Mapping[str, PreferenceList]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verified facts: how many replicas moved and how many leaders changed, each the fewest possible.

    `moves` and `leader_changes` count the step to the lists over all nodes. `repair_moves` and `repair_leader_changes`
    count the step from those lists to the lists over the nodes that are up. A first assignment has no earlier owners:
    its `moves` count the differences from rendezvous lists.
    """

    is_first: bool
    moves: int
    leader_changes: int
    repair_moves: int
    repair_leader_changes: int
    replicas: int

    def __str__(self) -> str:
        repair = f", {self.repair_moves} more while nodes are down" if self.repair_moves else ""
        what = "differ from rendezvous lists" if self.is_first else "move"
        return f"verified: {self.moves} of {self.replicas} replicas {what}, the proven minimum{repair}"


def verify(assignment: Assignment, *, previous: Assignment | None = None, topology: Topology | None = None) -> Verdict:
    """Return the facts that an assignment's certificate proves; raise `InvalidInput` for the first false claim.

    `previous` is the assignment that this one was made from, None for a first one. `topology` is the expected
    topology.

    >>> from apportion.balance import optimal
    >>> before = optimal(6, 2, Topology(["a", "b", "c"]))
    >>> print(verify(optimal(6, 2, before.topology.add("d"), previous=before), previous=before))
    verified: 3 of 12 replicas move, the proven minimum
    """
    certificate, rule = _claims(assignment, previous, topology)
    start = _first_lists(assignment, rule) if previous is None else _lists(previous, previous.home_rows)
    start = {partition: start.get(partition, ()) for partition in assignment.preference_lists}
    led = {partition: None if previous is None else next(iter(owners), None) for partition, owners in start.items()}
    home, current = _lists(assignment, assignment.home_rows), _lists(assignment, assignment.rows)
    moves, changes = _Step(rule, assignment.topology, down=(), is_first=previous is None).check(
        start, led, home, certificate.home
    )
    repair_moves = repair_changes = 0
    if certificate.current is not None and assignment.down:
        step = _Step(rule, assignment.topology, down=assignment.down, is_first=False)
        led = {partition: next(iter(owners), None) for partition, owners in home.items()}
        repair_moves, repair_changes = step.check(home, led, current, certificate.current)
    elif certificate.current is not None or assignment.down or home != current:
        _refuse(
            "steps of the certificate",
            "other steps",
            "one over all nodes, and one over the live nodes if some are down",
        )
    return Verdict(
        is_first=previous is None,
        moves=moves,
        leader_changes=changes,
        repair_moves=repair_moves,
        repair_leader_changes=repair_changes,
        replicas=sum(map(len, home.values())),
    )


def _claims(assignment: Assignment, previous: Assignment | None, topology: Topology | None) -> tuple[Certificate, Rule]:
    """Return an assignment's certificate and rule; refuse them if they do not match the arguments."""
    for what, each in (("assignment", assignment), ("previous", previous)):
        if not isinstance(each, Assignment) and (each is not None or what == "assignment"):
            raise InvalidInput(what, each, "an Assignment", "Pass the assignment that balance.optimal returned.")
    if not isinstance(topology, Topology | None):
        raise InvalidInput("topology", topology, "a Topology", "Wrap the nodes: Topology([...]).")
    certificate, rule = assignment.certificate, assignment.rule
    if certificate is None or rule is None:
        raise InvalidInput(
            "certificate", None, "one made by balance.optimal", "Only assignments of balance.optimal can be verified."
        )
    passed = "nothing" if previous is None else previous.epoch.digest
    made_from = certificate.previous or "nothing"
    if made_from != passed:
        hint = "Leave previous= out."
        if certificate.previous:
            hint = f"Pass previous=, the assignment of epoch {made_from[:8]}, from which this one was made."
        raise InvalidInput("previous of the certificate", made_from, f"{passed}, which was passed", hint)
    of = assignment.topology if topology is None else topology
    for what, digest in (("certificate", certificate.topology), ("assignment", assignment.topology.epoch.digest)):
        if digest != of.epoch.digest:
            hint = "Pass the topology that it was made for, or none."
            raise InvalidInput(f"topology of the {what}", digest, f"{of.epoch.digest}, which was passed", hint)
    _equal("options of the certificate", certificate.options, _options_digest(assignment, rule))
    return certificate, rule


class _Step:
    """The nodes that may hold something in one step, with their zones; checks the step."""

    def __init__(self, rule: Rule, topology: Topology, *, down: Sequence[str], is_first: bool) -> None:
        self.ids, self.is_first = topology.ids, is_first
        gone = set(down)
        self.nodes = {node.id: node for node in topology if node.weight > 0 and node.id not in gone}
        self.zone_of = {node.id: node.fault_domain(rule.spread_level) for node in self.nodes.values()}
        self.zones: dict[Hashable, list[str]] = {}
        for node_id, zone in self.zone_of.items():
            self.zones.setdefault(zone, []).append(node_id)
        self.replicas = min(rule.replicas, len(self.nodes))
        if rule.spread == "strict" and rule.replicas > len(self.zones):
            _refuse("replicas", rule.replicas, f"at most one in each of {len(self.zones)} zones, by a strict rule")
        # Zones take turns, one replica each per round, until there are enough. The last round may be a partial one.
        rounds = 0
        while sum(min(len(members), rounds + 1) for members in self.zones.values()) <= self.replicas:
            rounds += 1
            if rounds > self.replicas:
                break
        self.least = {zone: min(len(members), rounds) for zone, members in self.zones.items()}
        self.most = {zone: min(len(members), rounds + 1) for zone, members in self.zones.items()}
        self.owed_zones = [zone for zone, least in self.least.items() if least]

    def check(self, before: Lists, led: Mapping[str, str | None], after: Lists, proof: Proof) -> tuple[int, int]:
        """Return the number of replicas moved and of leaders changed, after the check that both are the fewest."""
        for partition, owners in after.items():
            self._check_list(partition, owners)
        self._check_moves(before, after, proof)
        self._check_leaders(led, after, proof)
        return proof.moves, proof.leader_changes

    def _check_list(self, partition: str, owners: PreferenceList) -> None:
        counts = Counter(self.zone_of.get(owner) for owner in owners)
        if len(set(owners)) != len(owners) or len(owners) != self.replicas or None in counts:
            _refuse(f"owners of {partition!r}", ", ".join(owners), f"{self.replicas} distinct nodes that are eligible")
        for zone in {*counts, *self.owed_zones}:
            if not self.least[zone] <= counts[zone] <= self.most[zone]:
                allowed = f"{self.least[zone]} .. {self.most[zone]} in the zone of {self.zones[zone][0]}"
                _refuse(f"owners of {partition!r}", ", ".join(owners), allowed)

    def _check_moves(self, before: Lists, after: Lists, proof: Proof) -> None:
        box = self._box(after)
        if self.is_first and proof.least == proof.most:
            # No replica had to move, so the loads could be chosen to even out other resources.
            loads = Counter(owner for owners in after.values() for owner in owners)
            box = Box(least=loads, most=loads, pools=[(list(loads), loads.total())])
        self._check_listed("capacities", proof.least)
        self._check_listed("capacities", proof.most)
        for node_id, low, high in zip(self.ids, proof.least, proof.most, strict=True):
            least, most = box.least.get(node_id, 0), box.most.get(node_id, 0)
            if not low <= least <= most <= high <= low + 1:
                _refuse(f"capacity of {node_id} in the certificate", f"{low} .. {high}", f"{least} .. {most}")
        prices = self._prices("prices", proof.prices)
        lists = CheapestLists(prices, self.zones, must=self.least, may=self.most, replicas=self.replicas)
        paid = sum(lists.least(before[partition]) for partition in after) - box.most_earned(prices)
        placed = sum(len(set(owners).difference(before[partition])) for partition, owners in after.items())
        _equal("moves that the prices prove", paid, placed)
        grown = sum(max(0, len(owners) - len(before[partition])) for partition, owners in after.items())
        _equal("moves of the certificate", proof.moves, placed - grown)

    def _box(self, after: Lists) -> Box:
        loads = Counter(owner for owners in after.values() for owner in owners)
        zones = [
            ZoneLimits(members=members, must=self.least[zone] * len(after), may=self.most[zone] * len(after))
            for zone, members in self.zones.items()
        ]
        weights = {node_id: node.millionths for node_id, node in self.nodes.items()}
        return box_of({node_id: loads[node_id] for node_id in self.nodes}, weights, zones, partitions=len(after))

    def _check_listed(self, what: str, listed: Sequence[int]) -> None:
        if len(listed) != len(self.ids) or any(type(each) is not int for each in listed):
            _refuse(f"{what} of the certificate", len(listed), f"{len(self.ids)} integers, one per node")

    def _prices(self, what: str, listed: Sequence[int]) -> dict[str, int]:
        self._check_listed(what, listed)
        return {node_id: price for node_id, price in zip(self.ids, listed, strict=True) if node_id in self.nodes}

    def _check_leaders(self, old: Mapping[str, str | None], after: Lists, proof: Proof) -> None:
        shares = dict.fromkeys(self.nodes, Fraction())
        for owners in after.values():
            for owner in owners:
                shares[owner] += Fraction(1, len(owners))
        led = Counter(owners[0] for owners in after.values())
        least = {node_id: share.numerator // share.denominator for node_id, share in shares.items()}
        most = {node_id: -(-share.numerator // share.denominator) for node_id, share in shares.items()}
        for node_id in self.nodes:
            if not least[node_id] <= led[node_id] <= most[node_id]:
                _refuse(f"partitions led by {node_id}", led[node_id], f"{least[node_id]} .. {most[node_id]}")
        box = Box(least=least, most=most, pools=[(list(self.nodes), len(after))])
        prices = self._prices("leader prices", proof.leader_prices)
        paid = sum(
            min((owner != old[partition]) + prices[owner] for owner in owners) for partition, owners in after.items()
        )
        changed = sum(owners[0] != old[partition] for partition, owners in after.items())
        _equal("changes of leader that the prices prove", paid - box.most_earned(prices), changed)
        new = sum(leader is None for leader in old.values())
        _equal("leader changes of the certificate", proof.leader_changes, changed - new)


def _lists(assignment: Assignment, rows: Sequence[Sequence[int]]) -> dict[str, PreferenceList]:
    ids = assignment.topology.ids
    listed = (tuple(ids[index] for index in row) for row in rows)
    return dict(zip(assignment.preference_lists, listed, strict=True))


def _first_lists(assignment: Assignment, rule: Rule) -> dict[str, PreferenceList]:
    count = min(rule.replicas, sum(node.weight > 0 for node in assignment.topology))
    partitions, ids = list(assignment.preference_lists), assignment.topology.ids
    indexes = Rendezvous(assignment.topology).preference_indexes(
        partitions, count, spread_level=rule.spread_level, spread="best-effort"
    )
    owners = (ids[index] for index in indexes)
    return dict(zip(partitions, zip(*[owners] * count, strict=True), strict=True))


def _options_digest(assignment: Assignment, rule: Rule) -> str:
    names = assignment.names or ()
    asked = f"{rule.replicas} {rule.spread_level} {rule.spread}", str(len(assignment.rows)), str(len(names))
    return content_digest(*(part.encode() for part in (*asked, *names, *assignment.down)))


def _equal(field: str, value: object, expected: object) -> None:
    if value != expected:
        _refuse(field, value, expected)


def _refuse(field: str, value: object, expected: object) -> NoReturn:
    hint = "Do not trust it: assign again with balance.optimal."
    raise InvalidInput(field, str(value)[:80], str(expected)[:80], hint)
