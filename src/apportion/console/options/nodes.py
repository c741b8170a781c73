"""Node options: the nodes from `--nodes` or `--topology`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.files.topology_file import read_topology
from apportion.errors import InvalidInput
from apportion.model.topology import Topology


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class NodesSource:
    """Nodes named on the command line or in a file."""

    nodes: Annotated[str | None, Parameter(help="Node ids, separated by commas.")] = None
    topology: Annotated[Path | None, Parameter(help="Topology file (TOML).")] = None

    def load_topology(self) -> Topology:
        """Return the topology of exactly one of the options."""
        if (self.nodes is None) == (self.topology is None):
            value = None if self.nodes is None else "given twice"
            raise InvalidInput("--nodes or --topology", value, "exactly one of the two", "Try --nodes a,b,c.")
        return Topology(self.nodes.split(",")) if self.nodes is not None else read_topology(self.topology or Path())
