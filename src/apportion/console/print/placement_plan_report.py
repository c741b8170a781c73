"""Placement plan report: a line per node, the largest transfers, and a summary; or JSON with every single move."""

from collections import Counter
from collections.abc import Mapping, Sequence

from apportion.console.print.output import key_member, print_columns, print_json, print_text
from apportion.model.plan import Key, Plan
from apportion.model.token import KeyRange, position_text
from apportion.placement.keys.key_bytes import key_bytes

MAX_TRANSFERS_SHOWN = 20


def print_plan(change: Plan) -> None:
    """Print a plan: a line per node, the largest transfers, and its summary at the end."""
    rows = [(f"{mark_of(change, node_id)} {node_id}", *_node_cells(change, node_id)) for node_id in change.per_node]
    print_columns(("  node", "zone", "weight", "share before", "share after", "gains", "gives"), rows)
    total = sum(change.widths_after.values())
    print_transfers(
        "share", [(source, target, f"{width / total:.2%}") for source, target, width in transfers_of(change)]
    )
    print()
    print_text(str(change))


def print_transfers(heading: str, transfers: Sequence[tuple[str, str, str]]) -> None:
    """Print the amounts that go from node to node, as many as a person can read; nothing if there are no moves."""
    if transfers:
        print()
        shown = transfers[:MAX_TRANSFERS_SHOWN]
        print_columns(("  transfer", heading), [(f"  {source} -> {target}", much) for source, target, much in shown])
    if len(transfers) > MAX_TRANSFERS_SHOWN:
        print_text(f"  and {len(transfers) - MAX_TRANSFERS_SHOWN} smaller transfers")


def print_plan_json(change: Plan) -> None:
    """Print a plan as JSON, with every single move. Each ratio is a part of everything that is owned."""
    total = sum(change.widths_after.values())
    print_json(
        "plan",
        epoch_before=str(change.before),
        epoch_after=str(change.after),
        exact=change.exact,
        pending=change.is_pending,
        moved_ratio=change.moved_ratio,
        lower_bound_ratio=change.lower_bound_ratio,
        fair_bound_ratio=change.fair_bound_ratio,
        stray_ratio=change.stray_ratio,
        leader_moved_ratio=change.leader_moved_ratio,
        changes=len(change.changes),
        nodes=[
            {
                "node": node_id,
                "before_ratio": node.before_ratio,
                "after_ratio": node.after_ratio,
                "gained_ratio": node.gained_ratio,
                "lost_ratio": node.lost_ratio,
            }
            for node_id, node in change.per_node.items()
        ],
        transfers=[
            {"source": source, "target": target, "ratio": width / total}
            for source, target, width in transfers_of(change)
        ],
        moves=[{**_item(move.item), "source": move.source, "target": move.target} for move in change.moves],
    )


def _item(item: KeyRange | Key) -> Mapping[str, str]:
    if isinstance(item, KeyRange):
        return {"start": position_text(item.start), "end": position_text(item.end)}
    return key_member(item if isinstance(item, bytes) else key_bytes(item))


def mark_of(change: Plan, node_id: str) -> str:
    """Return + for a new node, - for one that leaves, ~ for one with another weight or zone."""
    if node_id not in change.old:
        return "+"
    if node_id not in change.new:
        return "-"
    return " " if change.old[node_id] == change.new[node_id] else "~"


def _node_cells(change: Plan, node_id: str) -> tuple[str, ...]:
    weights = [f"{topology[node_id].weight:g}" for topology in (change.old, change.new) if node_id in topology]
    node = (change.new if node_id in change.new else change.old)[node_id]
    facts = change.per_node[node_id]
    moved = (f"{ratio:.2%}" if ratio else "" for ratio in (facts.gained_ratio, facts.lost_ratio))
    shares = f"{facts.before_ratio:.2%}", f"{facts.after_ratio:.2%}"
    return "/".join(node.zone), " -> ".join(dict.fromkeys(weights)), *shares, *moved


def transfers_of(change: Plan) -> list[tuple[str, str, int]]:
    """Return (source, target, width) of all moves between two nodes, the largest first."""
    widths: Counter[tuple[str, str]] = Counter()
    for move in change.moves:
        widths[move.source or "(a new copy)", move.target or "(dropped)"] += move.width
    ordered = sorted(widths.items(), key=lambda entry: (-entry[1], entry[0]))
    return [(*pair, width) for pair, width in ordered]
