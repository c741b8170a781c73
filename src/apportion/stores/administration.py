"""Administration: the requests of an operator to a store, apart from those of a program.

These requests also work on a store that `connect` would refuse. Such a store has an older schema, grants too few
rights, or is not set up to be durable.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.stores.reaper import Counter


@brief
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
    """Return a finding with `fault` as its advice. Without a fault (""), its verdict is ok."""
    return Finding(subject=subject, found=found, verdict=verdict if fault else "ok", advice=fault)


class Administration(Protocol):
    """An operator's requests to one store, given its URL. Each call connects and disconnects by itself."""

    async def inspect(self) -> tuple[Finding, ...]:
        """Check version, rights, durability and schema, and change nothing. An unavailable store becomes a finding."""

    async def absence(self) -> Finding | None:
        """Return the finding that the store does not exist yet, if so. O(1), unlike `inspect`, which reads all rows."""
        return next((each for each in await self.inspect() if each.verdict == "absent"), None)

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
        """Return how often each lease was renewed; empty for a store that gives no such counters, as etcd and Redis."""

    async def restored(self) -> tuple[int, int]:
        """Begin a new incarnation after the store was restored from a copy; return the old and the new incarnation."""


def checked_user(user: str) -> str:
    """Return the name of a user; `InvalidInput` for a name that a command could misread, such as one with a blank."""
    is_plain = isinstance(user, str) and user.isprintable() and set(user).isdisjoint(" '\"")
    if not user or not is_plain or user.startswith("-"):
        raise InvalidInput("user", user, "a name without blanks and quotes", "Name a user of the server.")
    return user
