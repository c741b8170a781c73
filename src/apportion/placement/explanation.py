"""Explanation: why a key is at its node, as a value that prints as a paragraph."""

from dataclasses import dataclass

from apportion.errors import shown
from apportion.errors.brief import brief
from apportion.model.plan import Key
from apportion.model.token import KeyRange


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Each step from a key to its owner, and the nodes after it.

    - `hash`: the result of the hasher; None where keys are compared as they are.
    - `range`: the stretch of positions with the same owner; None where the owner is computed.
    - `why`: the rule in words.
    - `next`: the nodes after the owner, in order of preference.
    - `if_owner_left`: the node that would take over. It is None if the balancer decides this, or if no rule decides it.
    """

    key: Key
    placement: str
    hasher: str
    hash: int | None = None
    range: KeyRange | None = None
    owner: str
    why: str
    next: tuple[str, ...] = ()
    if_owner_left: str | None = None

    def __str__(self) -> str:
        lines = [
            f"key            {shown(self.key)}",
            f"hash           {'none' if self.hash is None else f'{self.hash:#018x}'}  ({self.hasher})",
            f"owner          {self.owner}",
            f"why            {self.why}",
            f"range          {self.range or 'computed for each key'}",
            f"next           {', '.join(self.next) or 'nobody'}",
            f"if it left     {self.if_owner_left or 'to be decided: see why'}",
        ]
        return "\n".join(lines)
