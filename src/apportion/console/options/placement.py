"""Placement options: the placement of keys on the nodes of the options, or the placement of `--table`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.options.arguments import whole
from apportion.console.options.composition import compose, compose_from, recomposed
from apportion.console.options.hasher import Hashing
from apportion.console.options.nodes import NodesSource
from apportion.console.options.table_place import TablePlace, load_table
from apportion.errors import InvalidInput
from apportion.model.table import Table
from apportion.placement.api import Placement
from apportion.placement.frozen import Frozen


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PlacementOptions(NodesSource, Hashing):
    """A placement: on nodes named here or in a file, or the placement that made a saved table."""

    table: Annotated[
        TablePlace, Parameter(help="Table saved by `table export`, `table import` or `apply`, or URL#NAME in a store.")
    ] = None
    placement: Annotated[str | None, Parameter(help="Placement by name (default: slots).")] = None
    vnodes: Annotated[
        int | None, Parameter(converter=whole, help="Tokens per node of weight 1, in a ring (default: 150).")
    ] = None
    slots: Annotated[
        int | None, Parameter(converter=whole, help="Number of hash slots (default: 4096, or more for over 128 nodes).")
    ] = None

    def load_placement(self) -> Placement:
        """Return the placement that the options describe."""
        if self.table is None:
            name = "slots" if self.placement is None else self.placement
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
        """Return the placement; or the table itself, if no placement makes exactly this table."""
        if self.table is None or self.vnodes is not None:
            return self.load_placement()
        table = self._table_beside({})
        hasher = self.load_position_hasher(table)
        return recomposed(table, hasher) or Frozen(table, hasher=hasher)

    def load_table(self) -> Table:
        """Return the table of `--table` as it is."""
        return self._table_beside({"--vnodes": self.vnodes})

    def _table_beside(self, others: dict[str, int | None]) -> Table:
        """Read the table of `--table`; refuse options that describe another source of the placement."""
        beside = {
            "--nodes": self.nodes,
            "--topology": self.topology,
            "--placement": self.placement,
            "--slots": self.slots,
            **others,
        }
        for option, value in beside.items():
            if value is not None:
                hint = "The table holds it; leave the option out."
                raise InvalidInput(option, str(value), "no value, with --table", hint)
        return load_table(self.table or Path())
