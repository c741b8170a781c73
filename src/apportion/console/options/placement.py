"""Placement options: the nodes from `--nodes`, `--topology` or `--table`, and the placement of keys on them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.files.io import read_bounded
from apportion.console.files.snapshots import read
from apportion.console.files.topology_file import read_topology
from apportion.console.options.composition import compose, compose_from, recomposed
from apportion.errors import InvalidInput
from apportion.model.table import Table
from apportion.model.topology import Topology
from apportion.placement import catalog, hashers
from apportion.placement.api import Placement
from apportion.placement.frozen import Frozen

SECRET_FILE_BYTES = 4096


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


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Hashing:
    """How a key becomes a position."""

    hasher: Annotated[str | None, Parameter(help="Hash function (default: xxh3-64, or the one of the table).")] = None
    hasher_key_file: Annotated[
        Path | None, Parameter(help="File with the secret of siphash-2-4: 16 bytes, or 32 hexadecimal digits.")
    ] = None

    def asked_hasher(self) -> hashers.NamedHasher | None:
        """Return the hasher of the options, None if neither option was given."""
        if self.hasher is None and self.hasher_key_file is None:
            return None
        return hashers.get(self.hasher or hashers.DEFAULT, key=self._key())

    def load_hasher(self) -> hashers.NamedHasher:
        """Return the hasher of the options, or the default one."""
        return self.asked_hasher() or hashers.get()

    def load_position_hasher(self, table: Table | None = None) -> hashers.Hasher:
        """Return the hasher of positions in ranges, from the options or of a table; it may be the hash of a layout.

        A hasher other than the table's own is refused.
        """
        of_table = hashers.DEFAULT if table is None else table.hasher.partition(":")[0]
        hasher = catalog.hasher(self.hasher or of_table, key=self._key())
        if table is not None and hasher.label != table.hasher:
            is_other = hasher.label.partition(":")[0] != of_table
            option, value = ("--hasher", self.hasher) if is_other else ("--hasher-key-file", "(a secret)")
            raise InvalidInput(
                option, value, f"that of the table, {table.hasher}", "Leave --hasher out, or mend the key file."
            )
        return hasher

    def _key(self) -> bytes | None:
        return None if self.hasher_key_file is None else _secret(self.hasher_key_file)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlacementOptions(NodesSource, Hashing):
    """A placement: on nodes named here or in a file, or the placement that made a saved table."""

    table: Annotated[Path | None, Parameter(help="Table saved by `table export`, `table import` or `apply`.")] = None
    placement: Annotated[str | None, Parameter(help="Placement by name (default: slots).")] = None
    vnodes: Annotated[int | None, Parameter(help="Tokens of a ring's node of weight 1 (default: 150).")] = None
    slots: Annotated[int | None, Parameter(help="Hash slots (default: 4096, more for more than 128 nodes).")] = None

    def load_placement(self) -> Placement:
        """Return the placement that the options describe."""
        if self.table is None:
            name = self.placement or "slots"
            hasher = self.asked_hasher()
            return compose(name, self.load_topology(), hasher=hasher, vnodes=self.vnodes, slots=self.slots)
        table = self._table_beside({})
        return compose_from(table, self.load_position_hasher(table), vnodes=self.vnodes)

    def load_routed(self) -> Placement:
        """Return the placement, or the table of `--table` as it is."""
        if self.table is None:
            return self.load_placement()
        table = self.load_table()
        return Frozen(table, hasher=self.load_position_hasher(table))

    def load_explained(self) -> Placement:
        """Return the placement, or the answers of a table that no placement here would make."""
        if self.table is None or self.vnodes is not None:
            return self.load_placement()
        table = self._table_beside({})
        hasher = self.load_position_hasher(table)
        return recomposed(table, hasher) or Frozen(table, hasher=hasher)

    def load_table(self) -> Table:
        """Return the table of `--table` as it is."""
        return self._table_beside({"--vnodes": self.vnodes})

    def _table_beside(self, others: dict[str, int | None]) -> Table:
        """Read the table; refuse options that describe another source beside it."""
        beside = {
            "--nodes": self.nodes,
            "--topology": self.topology,
            "--placement": self.placement,
            "--slots": self.slots,
            **others,
        }
        for option, value in beside.items():
            if value is not None:
                raise InvalidInput(
                    option, str(value), "nothing beside --table", "The table holds it; leave the option out."
                )
        return read(self.table or Path(), Table)


def _secret(path: Path) -> bytes:
    data = read_bounded(path, SECRET_FILE_BYTES, what="--hasher-key-file")
    text = data.strip()
    if len(data) != hashers.SECRET_BYTES and len(text) == 2 * hashers.SECRET_BYTES:
        try:
            return bytes.fromhex(text.decode())
        except ValueError:
            pass
    return data
