"""Goal: a bound on a figure, in the unit it is shown in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """At least, or at most, so much."""

    bound: float
    unit: str
    is_most: bool

    def is_met(self, value: float) -> bool:
        """Return whether a value, unrounded, is within the bound."""
        return value <= self.bound if self.is_most else value >= self.bound

    def __str__(self) -> str:
        return f"{'<=' if self.is_most else '>='} {self.bound:g} {self.unit}"


def at_least(bound: float, unit: str) -> Goal:
    """Return the goal of so much or more.

    >>> goal = at_least(5, "x T")
    >>> str(goal), goal.is_met(5.0), goal.is_met(4.999)
    ('>= 5 x T', True, False)
    """
    return Goal(bound=bound, unit=unit, is_most=False)


def at_most(bound: float, unit: str) -> Goal:
    """Return the goal of so much or less."""
    return Goal(bound=bound, unit=unit, is_most=True)
