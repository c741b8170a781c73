"""Administration: what an operator asks of a store, apart from what a program does with it.

It works on a store that `connect` would refuse: one of an older schema, with too few rights, or not durable as set up.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from apportion.errors import InvalidInput
from apportion.stores.reaper import Counter


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of a diagnosis: what was looked at, what it is, whether that is well, and what to do if not.

    `absent` is a store that is not there yet, which is neither well nor wrong: the first `connect` makes it.
    """

    subject: str
    found: str
    verdict: Literal["ok", "absent", "warning", "error"] = "ok"
    advice: str = ""


class Administration(Protocol):
    """What can be asked about and done to one store by its URL; each call connects and disconnects by itself."""

    async def inspect(self) -> tuple[Finding, ...]:
        """Look at version, rights, durability and schema, changing nothing; a store that is away is a finding."""
        ...

    def upgrade_statements(self) -> tuple[str, ...]:
        """Return the statements that make the newest schema, each with its semicolon; empty without one."""
        ...

    async def upgrade(self) -> tuple[int, int]:
        """Bring the schema to the newest version; return the version before and after."""
        ...

    def grants(self, user: str) -> tuple[str, ...]:
        """Return the statements that give `user` what a member needs and no more."""
        ...

    async def renewals(self) -> tuple[Counter, ...]:
        """Return how often each lease was renewed; none of a store that ends leases by itself."""
        ...

    async def restored(self) -> tuple[int, int]:
        """Begin a new incarnation after the store was restored from a copy; return the one before and the new one."""
        ...


def checked_user(user: str) -> str:
    """Return the name of a user if it can stand in a command; `InvalidInput` for one that would be read as more."""
    is_plain = isinstance(user, str) and user.isprintable() and set(user).isdisjoint(" '\"")
    if not user or not is_plain or user.startswith("-"):
        raise InvalidInput("user", user, "a name without blanks and quotes", "Name a user of the server.")
    return user
