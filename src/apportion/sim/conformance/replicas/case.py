"""NodeCase: one promise of `ReplicaNode`, as a function that fails when the promise is broken."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from apportion.sim.conformance.replicas.stage import NodeStage

Run = Callable[[NodeStage], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCase:
    """A case: the sentence that is its name, its promise, and the function that runs it."""

    name: str
    promise: str
    run: Run


def node_case(run: Run) -> NodeCase:
    """Make a case of a function: its name is the sentence, its docstring the promise."""
    name = str(getattr(run, "__name__", run)).replace("_", " ")
    return NodeCase(name=name, promise=str(run.__doc__), run=run)
