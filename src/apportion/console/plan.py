"""`apportion plan`: what a change of nodes would move, before it moves."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.composing import succeed
from apportion.console.files import write_whole
from apportion.console.key_stream import KeysFile, keys_of
from apportion.console.output import key_member, print_columns, print_json
from apportion.console.source import Source
from apportion.console.topology_file import read_topology
from apportion.errors import InvalidInput
from apportion.model import codec
from apportion.model.plan import Key, Plan
from apportion.model.token import KeyRange, position_text
from apportion.model.topology import Node, Topology
from apportion.placement.change import plan as plan_of
from apportion.placement.keys import key_bytes

PENDING = 2
MAX_TRANSFERS_SHOWN = 20


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Edits:
    """What changes."""

    add: Annotated[list[str] | None, Parameter(help="Add a node of this id; may be repeated.", negative="")] = None
    remove: Annotated[list[str] | None, Parameter(help="Remove a node.", negative="")] = None
    drain: Annotated[list[str] | None, Parameter(help="Set a node's weight to 0; it stays a source.", negative="")] = (
        None
    )
    weight: Annotated[
        list[str] | None, Parameter(help="Set a weight: ID=WEIGHT, for added nodes too.", negative="")
    ] = None
    zone: Annotated[list[str] | None, Parameter(help="Zone of an added node: ID=eu/rack1.", negative="")] = None
    to: Annotated[Path | None, Parameter(help="Topology file to change to, in place of the options above.")] = None

    def applied_to(self, topology: Topology) -> Topology:
        """Return the topology after the changes."""
        single = (*_ids(self.add), *_ids(self.remove), *_ids(self.drain), *(self.weight or ()))
        if self.to is not None:
            if single or self.zone:
                raise InvalidInput(
                    "--to", str(self.to), "no --add, --remove, --drain, --weight or --zone beside it", "Use either."
                )
            target = read_topology(self.to)
            return Topology(target, cluster=target.cluster, number=max(target.number, topology.number + 1))
        weights = {node_id: _number(text) for node_id, text in _pairs("--weight", self.weight)}
        for node_id in _ids(self.drain):
            if node_id in weights:
                raise InvalidInput(
                    "--drain", node_id, "no --weight of the same node beside it", "To drain is weight 0."
                )
        zones = dict(_pairs("--zone", self.zone))
        added = [
            Node(
                node_id,
                zone=tuple(zones.pop(node_id, "").split("/")) if node_id in zones else (),
                weight=weights.pop(node_id, 1.0),
            )
            for node_id in _ids(self.add)
        ]
        if zones:
            raise InvalidInput(
                "--zone", next(iter(zones)), "the id of a node that --add adds", "Zones of present nodes stay."
            )
        changed = (
            Topology(topology.without(*_ids(self.remove)), cluster=topology.cluster)
            .add(*added)
            .drain(*_ids(self.drain))
        )
        for node_id, weight in weights.items():
            changed = changed.reweight(node_id, weight)
        return Topology(changed, cluster=topology.cluster, number=topology.number + bool(single))


def plan(
    *,
    source: Source = Source(),  # noqa: B008 - a frozen value
    edits: Edits = Edits(),
    keys: KeysFile = None,
    column: str | None = None,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    json: bool = False,
) -> int:
    """Show what a change would move. Exit code 0: nothing would change, 2: changes pending, 1: an error.

    Parameters
    ----------
    keys
        Count over the keys of this file; placements without a table need it.
    column
        Take the keys from this column of a CSV file with a header.
    output
        Save the plan, for `apportion apply`.
    json
        Print one JSON object instead.
    """
    if output is not None and keys is not None:
        raise InvalidInput(
            "--output", str(output), "no --keys beside it", "Only an exact plan can be saved and applied."
        )
    old = source.load_placement()
    target = edits.applied_to(old.topology)
    new = old if target == old.topology else succeed(old, target)
    counted = None if keys is None else keys_of((), keys, column)
    change = plan_of(old, new, counted)
    if output is not None:
        write_whole(output, codec.encode(change), what="--output")
    (print_plan_json if json else print_plan)(change)
    return PENDING if change.is_pending else 0


def print_plan(change: Plan) -> None:
    """Print a plan: a line per node, the largest transfers, and last its summary."""
    rows = [(f"{_mark(change, node_id)} {node_id}", *_node_cells(change, node_id)) for node_id in change.per_node]
    print_columns(("  node", "zone", "weight", "share before", "share after", "gains", "gives"), rows)
    transfers = _transfers(change)
    if transfers:
        print()
        shown = transfers[:MAX_TRANSFERS_SHOWN]
        print_columns(
            ("  transfer", "share"), [(f"  {source} -> {target}", f"{ratio:.2%}") for source, target, ratio in shown]
        )
    if len(transfers) > MAX_TRANSFERS_SHOWN:
        print(f"  and {len(transfers) - MAX_TRANSFERS_SHOWN} smaller transfers")
    print()
    print(change)


def print_plan_json(change: Plan) -> None:
    """Print a plan as JSON, with every single move; ratios are of the total that is owned."""
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
            {"source": source, "target": target, "ratio": ratio} for source, target, ratio in _transfers(change)
        ],
        moves=[{**_item(move.item), "source": move.source, "target": move.target} for move in change.moves],
    )


def _item(item: KeyRange | Key) -> Mapping[str, str]:
    """Return what moves: a range, half-open, or a key."""
    if isinstance(item, KeyRange):
        return {"start": position_text(item.start), "end": position_text(item.end)}
    return key_member(item if isinstance(item, bytes) else key_bytes(item))


def _mark(change: Plan, node_id: str) -> str:
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


def _transfers(change: Plan) -> list[tuple[str, str, float]]:
    """Return (source, target, ratio) of all that moves between two nodes, the largest first."""
    widths: Counter[tuple[str, str]] = Counter()
    for move in change.moves:
        widths[move.source or "(a new copy)", move.target or "(dropped)"] += move.width
    total = sum(change.widths_after.values())
    ordered = sorted(widths.items(), key=lambda entry: (-entry[1], entry[0]))
    return [(source, target, width / total) for (source, target), width in ordered]


def _ids(entries: list[str] | None) -> list[str]:
    """Split at commas, as `--nodes` does."""
    return [node_id for entry in entries or () for node_id in entry.split(",")]


def _pairs(option: str, entries: list[str] | None) -> list[tuple[str, str]]:
    """Split ID=VALUE at the last sign: an id may hold one, a value does not."""
    pairs: list[tuple[str, str]] = []
    for entry in entries or ():
        node_id, sign, value = entry.rpartition("=")
        if not sign or not node_id:
            raise InvalidInput(
                option,
                entry,
                "ID=VALUE",
                f"Write it like {option} db-01={'2' if option == '--weight' else 'eu/rack1'}.",
            )
        if node_id in dict(pairs):
            raise InvalidInput(option, node_id, "each node once", "Leave one of the two out.")
        pairs.append((node_id, value))
    return pairs


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidInput("--weight", text, "a number", "Write it like --weight db-01=2.") from error
