"""Partition options: the content of an assignment; an omitted option keeps the value of the assignment before."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.balance.optimal import optimal
from apportion.console.files.partitions_file import read_partitions
from apportion.console.options.arguments import whole
from apportion.console.options.outage import Outage
from apportion.errors import InvalidInput, NotEnoughNodes
from apportion.model import codec
from apportion.model.assignment import MAX_PARTITIONS, Assignment, Rule, Spread
from apportion.model.topology import Topology


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PartitionOptions:
    """The partitions, and the replicas of each with their zones."""

    # A lone hyphen means standard input: it is a value, not an option.
    partitions: Annotated[
        str | None, Parameter(help="Number of partitions, or a file with one id per line.", allow_leading_hyphen=True)
    ] = None
    column: Annotated[str | None, Parameter(help="Take the ids from this column of a CSV file.")] = None
    size_column: Annotated[str | None, Parameter(help="Take sizes in bytes from this column.")] = None
    replicas: Annotated[int | None, Parameter(converter=whole, help="Nodes that hold each partition (default: 1).")] = (
        None
    )
    spread_level: Annotated[
        int | None, Parameter(converter=whole, help="Level of the zones to spread over; 0 is the outermost.")
    ] = None
    spread: Annotated[Spread | None, Parameter(help="Refuse too few zones (strict), or share them (best-effort).")] = (
        None
    )

    @property
    def file(self) -> Path | None:
        """The file that lists the partitions, if `--partitions` names one."""
        named = self.partitions
        return None if named is None or named == "-" or named.isdecimal() else Path(named)

    def assigned(self, topology: Topology, outage: Outage, before: Assignment | None, *, is_saved: bool) -> Assignment:
        """Return the assignment on these nodes that follows the one before.

        If the assignment will be saved, and is too large for a file, it is refused before the work.
        """
        partitions, sizes = self._partitions(before)
        rule = Rule(replicas=1) if before is None else _rule_of(before)
        replicas, live = rule.replicas if self.replicas is None else self.replicas, outage.live_of(topology)
        count = partitions if isinstance(partitions, int) else len(partitions)
        if is_saved and count <= MAX_PARTITIONS:
            lists = 1 if len(live) == len(topology) else 2  # the owners now, and those at home
            codec.check_owners(partitions=count, replicas=lists * min(replicas, len(topology)))
        try:
            return optimal(
                partitions,
                replicas,
                topology,
                previous=before,
                live=live,
                sizes=sizes,
                spread_level=rule.spread_level if self.spread_level is None else self.spread_level,
                spread=self.spread or rule.spread,
            )
        except NotEnoughNodes as error:
            error.hint = error.hint.replace("spread='best-effort'", "--spread best-effort")
            raise

    def _partitions(self, before: Assignment | None) -> tuple[int | list[str], list[int] | None]:
        """Return the number of partitions or their ids, and their sizes if they are known."""
        if self.partitions is not None and not self.partitions.isdecimal():
            if self.partitions.strip("+-").replace(".", "", 1).isdecimal():
                hint = "Write --partitions 1000, or --partitions FILE with an id per line."
                raise InvalidInput("--partitions", self.partitions, "a whole number of at least 1, or a file", hint)
            listed = read_partitions(self.partitions, column=self.column, size_column=self.size_column)
            return listed.ids, listed.sizes
        for option, column in (("--column", self.column), ("--size-column", self.size_column)):
            if column is not None:
                raise InvalidInput(option, column, "a CSV file to take it from", "Pass --partitions FILE.csv.")
        if self.partitions is not None:
            return int(self.partitions[:20]), None
        if before is None:
            hint = "Write --partitions 1000, or --partitions FILE with an id per line."
            raise InvalidInput("--partitions", None, "a number, or a file that lists them", hint)
        ids = len(before.rows) if before.names is None else list(before.names)
        return ids, None if before.sizes is None else list(before.sizes)


def _rule_of(before: Assignment) -> Rule:
    """Return the rule of an assignment. If it has none, return a rule for the number of replicas that it holds."""
    return before.rule or Rule(replicas=max(1, *map(len, before.home_rows)))
