"""Node options: the nodes from `--nodes` or `--topology`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.files.topology_file import read_topology
from apportion.console.options.edits import ids_in
from apportion.errors import InvalidInput, shown
from apportion.errors.shown import listed
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
        if self.nodes is not None:
            return Topology(ids_in([self.nodes]))
        topology = read_topology(self.topology or Path())
        if 0 < len(topology.zoneless) < len(topology):
            print(f"note: in {self.topology}, nodes have no zone: {listed(topology.zoneless)}.", file=sys.stderr)
            print("Each of them counts as a zone. Nodes that fail together need the same zone.", file=sys.stderr)
        return topology

    def warn_of_keys(self, keys: Sequence[str]) -> None:
        """Tell on standard error if a key may be a node: a list of nodes takes commas, not blanks."""
        if self.nodes is not None and "," not in self.nodes and keys:
            print(f"note: --nodes names one node, {shown(self.nodes)}; {shown(keys[0])} is a key.", file=sys.stderr)
            print("Separate nodes with commas: --nodes a,b.", file=sys.stderr)
