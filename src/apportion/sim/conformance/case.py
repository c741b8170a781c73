"""Case: one promise of a store, as a function that fails when the promise is broken.

A case is skipped for three reasons only. A field of `Capabilities` says that the store does not promise this, or the
store keeps no tasks at all, or it has no database whose transactions could complete a task.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from apportion.sim.conformance.context import FIELDS, Stage
from apportion.sim.conformance.expect import holds

Run = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A case: the sentence that is its name, its promise, the capabilities it needs, and the function that runs it."""

    name: str
    promise: str
    needs: tuple[str, ...]
    run: Run


def case(*needs: str) -> Callable[[Run], Case]:
    """Make a case of a function: its name is the sentence, its docstring the promise."""
    holds(set(needs) <= FIELDS, f"{needs} are fields of Capabilities")

    def _made(run: Run) -> Case:
        name = str(run.__name__).replace("_", " ")
        return Case(name=name, promise=str(run.__doc__), needs=needs, run=run)

    return _made
