"""Edits of a topology on the command line: nodes added, removed, drained or given another weight."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from apportion.console.files.topology_file import read_topology
from apportion.console.options.table_place import StoredTable, TablePlace
from apportion.errors import InvalidInput
from apportion.model.topology import Node, Topology


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Edits:
    """The changes to a topology."""

    add: Annotated[list[str] | None, Parameter(help="Add a node with this id; may be repeated.", negative="")] = None
    remove: Annotated[list[str] | None, Parameter(help="Remove a node.", negative="")] = None
    drain: Annotated[
        list[str] | None, Parameter(help="Set a node's weight to 0; copies can still come from it.", negative="")
    ] = None
    weight: Annotated[
        list[str] | None, Parameter(help="Set a weight: ID=WEIGHT, for added nodes too.", negative="")
    ] = None
    zone: Annotated[list[str] | None, Parameter(help="Zone of an added node: ID=eu/rack1.", negative="")] = None
    to: Annotated[
        TablePlace,
        Parameter(
            help="Topology file to change to, instead of the options above. For plan, also a saved table or assignment."
        ),
    ] = None

    def applied_to(self, topology: Topology) -> Topology:
        """Return the topology after the changes."""
        single = (*ids_in(self.add), *ids_in(self.remove), *ids_in(self.drain), *(self.weight or ()))
        if self.to is not None:
            if single or self.zone:
                expected, hint = "no --add, --remove, --drain, --weight or --zone with it", "Use one of the two."
                raise InvalidInput("--to", str(self.to), expected, hint)
            if isinstance(self.to, StoredTable):
                hint = "To use a stored table as the target, run: apportion plan --table"
                raise InvalidInput("--to", str(self.to), "a topology file", hint)
            target = read_topology(self.to)
            return Topology(target, cluster=target.cluster, number=max(target.number, topology.number + 1))
        weights = {node_id: weight_in(text) for node_id, text in pairs_in("--weight", self.weight)}
        self._check_removed(drained=ids_in(self.drain), weighed=list(weights))
        for node_id in ids_in(self.drain):
            if node_id in weights:
                hint = "A drained node has weight 0."
                raise InvalidInput("--drain", node_id, "no --weight of the same node with it", hint)
        zones = dict(pairs_in("--zone", self.zone))
        added = [
            Node(
                node_id,
                zone=tuple(zones.pop(node_id, "").split("/")) if node_id in zones else (),
                weight=weights.pop(node_id, 1.0),
            )
            for node_id in ids_in(self.add)
        ]
        if zones:
            hint = "Leave the option out: zones of present nodes stay."
            raise InvalidInput("--zone", next(iter(zones)), "the id of a node that --add adds", hint)
        changed = (
            Topology(topology.without(*ids_in(self.remove)), cluster=topology.cluster)
            .add(*added)
            .drain(*ids_in(self.drain))
        )
        for node_id, weight in weights.items():
            changed = changed.reweight(node_id, weight)
        return Topology(changed, cluster=topology.cluster, number=topology.number + bool(single))

    @property
    def gone(self) -> set[str]:
        """Nodes that are removed, and not added again."""
        return set(ids_in(self.remove)).difference(ids_in(self.add))

    def _check_removed(self, *, drained: list[str], weighed: list[str]) -> None:
        gone = self.gone
        for option, node_ids in (("--drain", drained), ("--weight", weighed)):
            for node_id in node_ids:
                if node_id in gone:
                    hint = "A drained node stays a source of copies, a removed node does not: use one of the two."
                    raise InvalidInput(option, node_id, "no --remove of the same node with it", hint)


def ids_in(entries: list[str] | None) -> list[str]:
    """Split each entry at its commas; refuse an empty id, which a blank after a comma leaves behind."""
    for entry in entries or ():
        ids = [node_id.strip(" ") for node_id in entry.split(",")]
        if entry != ",".join(ids) or "" in ids:
            hint = f"Leave out blanks next to commas: {','.join(filter(None, ids)) or 'a,b'}"
            raise InvalidInput("list of node ids", entry, "ids between commas, without blanks around them", hint)
    return [node_id for entry in entries or () for node_id in entry.split(",")]


def pairs_in(option: str, entries: list[str] | None) -> list[tuple[str, str]]:
    """Split ID=VALUE at the last equals sign: an id may hold such a sign, a value may not."""
    pairs: list[tuple[str, str]] = []
    for entry in entries or ():
        node_id, sign, value = entry.rpartition("=")
        if not sign or not node_id:
            hint = f"Write it like {option} db-01={'2' if option == '--weight' else 'eu/rack1'}."
            raise InvalidInput(option, entry, "ID=VALUE", hint)
        if node_id in dict(pairs):
            raise InvalidInput(option, node_id, "each node once", "Leave one of the two out.")
        pairs.append((node_id, value))
    return pairs


def weight_in(text: str) -> float:
    """Return a weight as a number."""
    try:
        return float(text)
    except ValueError as error:
        raise InvalidInput("--weight", text, "a number", "Write it like --weight db-01=2.") from error
