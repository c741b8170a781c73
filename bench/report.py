"""The report: the conditions of a run, and one table of all figures; or the same as JSON.

Promises: nothing is left out, neither a missed goal nor a figure that was not measured or could not run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from bench.row import Row

HEADINGS = ("figure", "goal", "measured", "verdict")


@dataclass(slots=True)
class Report:
    """The results of a run so far."""

    machine: Mapping[str, str]
    contenders: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    others_cpus: float | None = None

    def heading(self) -> str:
        """Return the machine and the contenders, a line each."""
        lines = {**self.machine, **{f"contender {name}": text for name, text in self.contenders.items()}}
        return "\n".join(f"{name}: {text}" for name, text in lines.items())

    def table(self) -> str:
        """Return all rows in columns, the figures that could not run below them, and a summary."""
        lines = [(row.name, row.goal or "-", row.shown, row.verdict) for row in self.rows]
        lines += [(name, "-", text, "COULD NOT RUN") for name, text in self.failures.items()]
        return "\n".join((*_columns([HEADINGS, *lines]), "", self.summary()))

    def summary(self) -> str:
        """Return how many goals were met, missed or not measured, how long it took and how busy others were."""
        verdicts = [row.met for row in self.rows if row.met is not None]
        unmeasured = sum(not row.is_measured for row in self.rows)
        others = "unknown" if self.others_cpus is None else f"{self.others_cpus:.2f} CPUs on average"
        return (
            f"goals met: {verdicts.count(True)}, missed: {verdicts.count(False)}; not measured: {unmeasured}; "
            f"could not run: {len(self.failures)}; {self.seconds:.0f} s; used by other processes meanwhile: {others}"
        )

    def as_json(self) -> str:
        """Return everything as one JSON object."""
        return json.dumps(asdict(self), indent=2)


def _columns(lines: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = tuple("-" * width for width in widths)
    padded = (
        (cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in (lines[0], rule, *lines[1:])
    )
    return [" | ".join(cells).rstrip() for cells in padded]
