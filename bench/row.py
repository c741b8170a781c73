"""Row: one figure as the report shows it.

Promises: a goal comes with a verdict, and a verdict with a goal; rows of neither are information.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What was measured: the number, the same with its unit and spread as `shown`, and its goal if it has one."""

    name: str
    value: float
    shown: str
    goal: str | None = None
    met: bool | None = None

    def __post_init__(self) -> None:
        if (self.goal is None) != (self.met is None):
            raise ValueError(f"row {self.name!r} has goal {self.goal!r} and verdict {self.met!r}; give both or neither")

    @property
    def verdict(self) -> str:
        """Return met, MISSED or (information)."""
        return "(information)" if self.met is None else "met" if self.met else "MISSED"
