"""Assignment report: a line per node, degraded partitions, the largest transfers, and a summary at the end.

The summary tells the facts that the certificate proves; `balance.verify` has checked it before anything is printed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from apportion.balance.solver.fair_loads import fair_shares
from apportion.balance.verify import Verdict, verify
from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.print.placement_plan_report import mark_of, print_transfers, transfers_of
from apportion.model.assignment import Assignment
from apportion.model.plan import Plan
from apportion.placement.plans import plan as plan_of

MAX_DEGRADED_SHOWN = 20


# The class has no `__slots__`, because a cached property keeps its value in the object's own dictionary.
@dataclass(frozen=True, kw_only=True)
class AssignmentStep:
    """A step from one assignment to the next, or to the first."""

    before: Assignment | None
    after: Assignment

    @cached_property
    def change(self) -> Plan:
        """The moves of the step; none for a first assignment."""
        return plan_of(self.before or self.after, self.after)

    @cached_property
    def verdict(self) -> Verdict | None:
        """The facts that the certificate proves; None if it is about another step.

        A false certificate raises `InvalidInput`.
        """
        certificate = self.after.certificate
        made_from = "" if self.before is None else self.before.epoch.digest
        if certificate is None or certificate.previous != made_from:
            return None
        return verify(self.after, previous=self.before)

    @cached_property
    def gains(self) -> Counter[str | None]:
        """The number of replicas that each node gets. The key None has the number of dropped replicas."""
        return Counter(move.target for move in self.change.moves)

    @cached_property
    def gives(self) -> Counter[str | None]:
        """The number of replicas that each node gives up. The key None has the number of new replicas."""
        return Counter(move.source for move in self.change.moves)

    @property
    def moved(self) -> int:
        """The number of replicas that move from one node to another. New and dropped replicas do not count."""
        return sum(None not in (move.source, move.target) for move in self.change.moves)

    @property
    def leader_changes(self) -> int:
        """The number of partitions that had a leader and have another one now."""
        return sum(bool(change.before) and change.before[:1] != change.after[:1] for change in self.change.changes)

    @property
    def sides(self) -> Iterator[Assignment]:
        """The assignment before, if there is one, and the assignment after."""
        return (side for side in (self.before, self.after) if side is not None)


def print_step(command: str, step: AssignmentStep) -> None:
    """Print the effect of a step on each node, and its summary."""
    verdict = step.verdict
    rows = [(f"{mark_of(step.change, node_id)} {node_id}", *cells) for node_id, cells in _cells(step).items()]
    any_down = any(side.down for side in step.sides)
    headings = ("  node", "zone", "weight", "replicas", "leads", "gains", "gives", "up")
    print_columns(headings[: None if any_down else -1], [row[: None if any_down else -1] for row in rows])
    print_transfers("replicas", [(source, target, str(width)) for source, target, width in transfers_of(step.change)])
    _print_degraded(step.after.degraded)
    print()
    print_text(f"{command}: {summary(step, verdict)}")


def summary(step: AssignmentStep, verdict: Verdict | None) -> str:
    """Return the one line that tells the result, and the proven facts about it."""
    after, change = step.after, step.change
    replicas = sum(after.loads.values())
    tail = [f"loads within {_farthest(after):.2f} of their shares"]
    tail += [f"{len(after.degraded)} degraded"] if after.degraded else []
    tail += [f"{len(after.down)} down"] if after.down else []
    if step.before is None:
        placed = f"{replicas} replicas of {len(after.rows)} partitions placed ({_proof(step, verdict)})"
        return ", ".join((placed, *tail, f"{len(after.topology)} nodes", f"epoch {after.epoch}"))
    moved = f"{step.moved} of {replicas} replicas move ({step.moved / replicas:.2%}, {_proof(step, verdict)})"
    leaders = "1 leader changes" if step.leader_changes == 1 else f"{step.leader_changes} leaders change"
    return ", ".join((moved, leaders, *tail, change.from_to))


def _proof(step: AssignmentStep, verdict: Verdict | None) -> str:
    if verdict is None:
        return "not proven: no certificate of this step"
    if step.before is None:
        return "verified"
    if any(side.down for side in step.sides):
        home, repair = _moves(verdict.moves, "home"), _moves(verdict.repair_moves, "repair")
        proof = f"{home} and {repair}, both the proven minimum: verified"
        return f"{proof}; the moves from the last repair to this one are not proven" if step.before.down else proof
    return "the proven minimum: verified"


def _moves(count: int, kind: str) -> str:
    return f"{count} {kind} move" + "s" * (count != 1)


def _farthest(assignment: Assignment) -> float:
    """Return the largest distance of a node's load from its share by weight, among the nodes that are up."""
    down, loads = set(assignment.down), assignment.loads
    weights = {node.id: node.millionths for node in assignment.topology if node.weight and node.id not in down}
    shares = fair_shares(weights, partitions=len(assignment.rows), total=sum(loads.values()))
    return float(max((abs(loads[node_id] - share) for node_id, share in shares.items()), default=0))


def _cells(step: AssignmentStep) -> dict[str, tuple[str, ...]]:
    """Return the printed cells of each node; a changed figure shows its value before and after."""
    cells: dict[str, tuple[str, ...]] = {}
    for node_id in sorted({*step.change.old.ids, *step.change.new.ids}):
        sides = [side for side in step.sides if node_id in side.topology]
        cells[node_id] = (
            "/".join(sides[-1].topology[node_id].zone),
            _arrow(f"{side.topology[node_id].weight:g}" for side in sides),
            _arrow(str(side.loads.get(node_id, 0)) for side in step.sides),
            _arrow(str(side.leader_loads.get(node_id, 0)) for side in step.sides),
            str(step.gains[node_id] or ""),
            str(step.gives[node_id] or ""),
            _arrow("down" if node_id in side.down else "up" for side in sides),
        )
    return cells


def _arrow(values: Iterable[str]) -> str:
    return " -> ".join(dict.fromkeys(values))


def _print_degraded(degraded: Mapping[str, str]) -> None:
    if not degraded:
        return
    print()
    shown = list(degraded.items())[:MAX_DEGRADED_SHOWN]
    print_columns(("  degraded", "reason"), [(f"  {partition}", reason) for partition, reason in shown])
    if len(degraded) > len(shown):
        print_text(f"  and {len(degraded) - len(shown)} more partitions")


def print_step_json(command: str, step: AssignmentStep, *, with_owners: bool) -> None:
    """Print a step as JSON, with every single move and, if asked for, with the owners of every partition."""
    verdict, change, after = step.verdict, step.change, step.after
    print_json(
        command,
        epoch_before=None if step.before is None else str(change.before),
        epoch_after=str(change.after),
        pending=step.before is None or change.is_pending,
        partitions=len(after.rows),
        replicas=sum(after.loads.values()),
        moved=step.moved,
        leader_changes=step.leader_changes,
        farthest_load=_farthest(after),
        verified=verdict is not None,
        home_moves=None if verdict is None else verdict.moves,
        repair_moves=None if verdict is None else verdict.repair_moves,
        down=after.down,
        degraded=after.degraded,
        nodes=[_node_member(step, node_id) for node_id in sorted({*change.old.ids, *change.new.ids})],
        moves=[{"partition": move.item, "source": move.source, "target": move.target} for move in change.moves],
        **({"assignment": dict(after.preference_lists)} if with_owners else {}),
    )


def _node_member(step: AssignmentStep, node_id: str) -> Mapping[str, object]:
    names = ("after",) if step.before is None else ("before", "after")
    return {
        "node": node_id,
        "gains": step.gains[node_id],
        "gives": step.gives[node_id],
        **{
            f"{figure}_{name}": loads.get(node_id, 0)
            for name, side in zip(names, step.sides, strict=True)
            for figure, loads in (("replicas", side.loads), ("leads", side.leader_loads))
        },
    }
