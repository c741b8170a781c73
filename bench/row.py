"""Row: one figure as the report shows it.

Promises: a verdict comes with a goal and a value; a goal without a verdict is "not measured" and never met; rows of
neither are information.
"""

from dataclasses import dataclass

from bench import implementation
from bench.goal import Goal


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The measured number, the same with its unit and spread as `shown`, and its goal if it has one."""

    name: str
    value: float | None
    shown: str
    goal: str | None = None
    met: bool | None = None

    def __post_init__(self) -> None:
        if self.met is not None and (self.goal is None or self.value is None):
            raise ValueError(
                f"row {self.name!r} has verdict {self.met!r}, goal {self.goal!r} and value {self.value!r}; "
                "a verdict needs both"
            )

    @property
    def is_measured(self) -> bool:
        """Whether there is a value, and a verdict if there is a goal."""
        return self.value is not None and (self.goal is None or self.met is not None)

    @property
    def verdict(self) -> str:
        """Return met, MISSED, not measured or (information)."""
        if not self.is_measured:
            return "not measured"
        return "(information)" if self.met is None else "met" if self.met else "MISSED"


def native_row(name: str, value: float, shown: str, goal: Goal | None) -> Row:
    """Return the row of a figure that cannot be measured here."""
    if goal is None:
        return Row(name=name, value=value, shown=shown)
    met = goal.is_met(value) if implementation.is_native() else None
    return Row(
        name=name, value=value, shown=shown if met is not None else f"{shown}, reference", goal=str(goal), met=met
    )


def not_measured(name: str, why: str, goal: Goal | None = None) -> Row:
    """Return the row of what cannot be measured here."""
    return Row(name=name, value=None, shown=f"not measured: {why}", goal=None if goal is None else str(goal))
