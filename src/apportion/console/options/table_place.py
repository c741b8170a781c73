"""Table place: where a table is: in a file, or under a name in a store, as `sqlite:///work.db#orders`.

`sqlite:///work.db#orders/2` is the kept table of that number. Without a URL before the `#`, APPORTION_STORE gives it.

The store's packages are imported where they are used: commands that read files start without them.
"""

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

from cyclopts import Parameter, Token

from apportion.console.files.snapshots import read
from apportion.console.options.store_url import VARIABLE
from apportion.errors import InvalidInput
from apportion.model.table import Table

if TYPE_CHECKING:
    from apportion.stores.api import CoordinationStore
    from apportion.tables.kept import KeptTables, TableChange

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table in a store: the published one, or a kept one if `text` ends with the number of a kept table."""

    option: str
    text: str = field(repr=False)

    def __str__(self) -> str:
        from apportion.stores.catalog import shown_url  # noqa: PLC0415

        url, name, number = self._parts()
        return f"{shown_url(url)}#{name}" + (f"/{number}" if number else "")

    def read(self) -> Table:
        """Return the published table, or the kept one of the number."""
        from apportion.tables.kept import read_table  # noqa: PLC0415

        _, name, number = self._parts()
        return self._asked(lambda store: read_table(store, name, number))

    def history(self) -> "tuple[Table, KeptTables]":
        """Return the published table, and the kept ones."""
        from apportion.tables.kept import read_history  # noqa: PLC0415

        name = self._newest()
        return self._asked(lambda store: read_history(store, name))

    def changed(self, change: Callable[[Table], Table]) -> "TableChange":
        """Publish the table that `change` makes of the newest one."""
        from apportion.tables.kept import changed  # noqa: PLC0415

        name = self._newest()
        return self._asked(lambda store: changed(store, name, change, now=int(time.time())))

    def undone(self) -> "TableChange":
        """Publish the kept table before the newest one."""
        from apportion.tables.kept import undone  # noqa: PLC0415

        name = self._newest()
        return self._asked(lambda store: undone(store, name, now=int(time.time())))

    def _asked(self, question: "Callable[[CoordinationStore], Awaitable[Result]]") -> Result:
        """Ask the store, which must be there."""
        import asyncio  # noqa: PLC0415

        from apportion.stores.catalog import opened  # noqa: PLC0415

        url, _, _ = self._parts()

        async def _ask() -> Result:
            async with opened(url) as store:
                return await question(store)

        return asyncio.run(_ask())

    def _newest(self) -> str:
        _, name, number = self._parts()
        if number is not None:
            hint = "To go back to a kept table: plan --to URL#NAME/NUMBER, and apply the plan."
            raise InvalidInput(self.option, str(self), "URL#NAME alone, without the number of a kept table", hint)
        return name

    def _parts(self) -> tuple[str, str, int | None]:
        """Return the URL, the name, and the number of a kept table. Errors do not show the text."""
        url, mark, rest = self.text.rpartition("#")
        name, slash, number = rest.partition("/")
        is_number = not slash or (number.isascii() and number.isdecimal() and 0 < len(number) < 10)
        url = url or os.environ.get(VARIABLE, "")
        if not (mark and url and name and is_number) or "@" in rest:
            expected = "URL#NAME, or URL#NAME/NUMBER for a kept table"
            hint = f"Write it like sqlite:///work.db#orders, or #orders if {VARIABLE} has the URL."
            raise InvalidInput(self.option, "(not shown)", expected, hint)
        return url, name, int(number) if slash else None


def table_place(_: object, tokens: Sequence[Token]) -> Path | StoredTable:
    """Return the place of a table that an option names: in a store for a text with `://` or a `#` at its start."""
    text = tokens[0].value
    is_stored = "://" in text or text.startswith("#") or _is_misspelt(text)
    return StoredTable(tokens[0].keyword or "table", text) if is_stored else Path(text)


def _is_misspelt(text: str) -> bool:
    """Whether a text may be a URL with a password, and without its scheme: messages do not show such a text."""
    return bool({"@", "?"} & {*text}) and (":" in text or "//" in text) and not os.path.exists(text)  # noqa: PTH110


TablePlace: TypeAlias = Annotated[Path | StoredTable | None, Parameter(converter=table_place, accepts_keys=False)]


def load_table(place: Path | StoredTable) -> Table:
    """Return the table at a place."""
    return place.read() if isinstance(place, StoredTable) else read(place, Table)


def file_at(place: Path | StoredTable | None) -> Path | None:
    """Return the file of a place, None for a table in a store."""
    return place if isinstance(place, Path) else None
