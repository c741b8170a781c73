"""Comparison of placements: its rows in the order of the answer, and the answer itself."""

from collections.abc import Sequence

from apportion.balance.comparison.answer import answer, ranked
from apportion.balance.comparison.trial import KeyTrial, PlacementRow
from apportion.errors.brief import brief


@brief
class KeyComparison:
    """The rows of placements on one trial, the best first; those that were not measured come last.

    >>> from apportion import Jump, Rendezvous, Topology
    >>> trial = KeyTrial.of(Topology(["a", "b", "c"]), [b"%d" % number for number in range(300)])
    >>> KeyComparison(trial, [trial.row(kind(trial.topology)) for kind in (Jump, Rendezvous)])
    KeyComparison(3 nodes, no zones, 300 keys: Rendezvous, Jump)
    """

    def __init__(self, trial: KeyTrial, rows: Sequence[PlacementRow]) -> None:
        self.trial = trial
        self.rows: list[PlacementRow] = ranked(rows)

    @property
    def measured(self) -> list[PlacementRow]:
        """The rows with measurements, the best first."""
        return [row for row in self.rows if not row.refused]

    @property
    def answer(self) -> str:
        """The answer in sentences: the best placement, the reasons, and the placements that are as even."""
        trial = self.trial
        return answer(
            self.measured,
            place=trial.topology.nodes_in_zones.removesuffix(", no zones"),
            chance=trial.chance_difference,
        )

    @property
    def refusals(self) -> dict[str, list[str]]:
        """The reasons why placements were not measured, each with the placements that it applies to."""
        reasons: dict[str, list[str]] = {}
        for row in self.rows:
            if row.refused:
                reasons.setdefault(row.refused, []).append(row.placement)
        return reasons

    def __repr__(self) -> str:
        trial, names = self.trial, ", ".join(row.placement for row in self.rows)
        return f"KeyComparison({trial.topology.nodes_in_zones}, {len(trial.keys)} keys: {names})"

    def _repr_html_(self) -> str:
        from apportion.model.notebook import html_of  # noqa: PLC0415 - only notebooks pay for it

        cells = (
            (row.placement, f"{row.max_over_mean:.3f}", f"{row.variation:.1%}", f"{row.moved_on_add:.2%}",
             f"{row.moved_on_remove:.2%}", f"{row.stray:.2%}", *lacking_cell(row))
            for row in self.measured
        )  # fmt: skip
        head = ("placement", "max/mean", "variation", "moved on add", "on remove", "stray")
        return html_of(self.answer, (*head, *self.lacking_heading), cells, len(self.measured))

    @property
    def lacking_heading(self) -> tuple[str, ...]:
        """The heading of the column `lacking`; nothing where no zone rule applies."""
        return ("lacking",) if self.trial.has_zones else ()


def lacking_cell(row: PlacementRow) -> tuple[str, ...]:
    """Return the cell of the column `lacking`; nothing where no zone rule applies."""
    return () if row.lacking_ratio is None else (f"{row.lacking_ratio:.1%}",)
