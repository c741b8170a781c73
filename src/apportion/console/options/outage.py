"""Outage: `--live` names the nodes that are up, `--down` those that are not; without either, all are up."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from apportion.console.options.edits import Edits, ids_in
from apportion.errors import InvalidInput
from apportion.model.topology import Topology


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Outage:
    """Nodes that are up, or that are not."""

    live: Annotated[
        list[str] | None, Parameter(help="Nodes that are up, separated by commas (default: all).", negative="")
    ] = None
    down: Annotated[
        list[str] | None, Parameter(help="Nodes that are down; they get their partitions back later.", negative="")
    ] = None

    @property
    def is_given(self) -> bool:
        """Whether the command line tells which nodes are up."""
        return self.live is not None or self.down is not None

    def check_beside(self, edits: Edits) -> None:
        """Raise `InvalidInput` for a node that is removed and also named as up or down."""
        gone = edits.gone
        for option, node_ids in (("--live", ids_in(self.live)), ("--down", ids_in(self.down))):
            for node_id in node_ids:
                if node_id in gone:
                    hint = "A node that is down gets its partitions back, a removed node does not: use one of the two."
                    raise InvalidInput(option, node_id, "no --remove of the same node with it", hint)

    def live_of(self, topology: Topology) -> list[str]:
        """Return the nodes that are up; raise `UnknownNode` for an unknown node."""
        if self.live is not None and self.down is not None:
            raise InvalidInput("--live", ",".join(self.live), "no --down with it", "Use one of the two.")
        if self.live is not None:
            return ids_in(self.live)
        down = {topology.index(node_id) for node_id in ids_in(self.down)}
        return [node_id for index, node_id in enumerate(topology.ids) if index not in down]
