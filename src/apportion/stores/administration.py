"""Administration: the requests of an operator to a store, apart from those of a program.

It also works on a store that `connect` would refuse: one with an older schema, with too few rights, or not durable as
set up.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from apportion.errors import InvalidInput
from apportion.stores.reaper import Counter


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of a diagnosis: the subject, the state found, a verdict on it, and advice when the verdict is not ok.

    The verdict `absent` means that the store does not exist yet. This is no fault: the first `connect` makes the store.
    """

    subject: str
    found: str
    verdict: Literal["ok", "absent", "warning", "error"] = "ok"
    advice: str = ""


def judged(subject: str, found: str, fault: str, *, verdict: Literal["warning", "error"] = "warning") -> Finding:
    """Return a finding with advice against a fault; it is ok without a fault ("")."""
    return Finding(subject=subject, found=found, verdict=verdict if fault else "ok", advice=fault)


class Administration(Protocol):
    """An operator's requests to one store, given its URL. Each call connects and disconnects by itself."""

    async def inspect(self) -> tuple[Finding, ...]:
        """Look at version, rights, durability and schema, and change nothing. A store that is away is a finding."""

    def upgrade_statements(self) -> tuple[str, ...]:
        """Return the statements that make the newest schema with the tables of tasks, each with its semicolon.

        The result is empty for a store without a schema.
        """

    async def upgrade(self) -> tuple[int, int]:
        """Bring the schema to the newest version; return the version before and after."""

    async def upgrade_tasks(self) -> tuple[int, int]:
        """Bring the tables of tasks to the newest version; return the version before and after, 0 for no tables."""
        return 0, 0

    def grants(self, user: str) -> tuple[str, ...]:
        """Return the statements that give `user` the rights of a member and no more."""

    async def renewals(self) -> tuple[Counter, ...]:
        """Return how often each lease was renewed. The result is empty for a store that ends leases by itself."""

    async def restored(self) -> tuple[int, int]:
        """Begin a new incarnation after the store was restored from a copy; return the old and the new incarnation."""


def checked_user(user: str) -> str:
    """Return the name of a user if a command can contain it; `InvalidInput` for a name that would be read as more."""
    is_plain = isinstance(user, str) and user.isprintable() and set(user).isdisjoint(" '\"")
    if not user or not is_plain or user.startswith("-"):
        raise InvalidInput("user", user, "a name without blanks and quotes", "Name a user of the server.")
    return user
