"""Misplaced: errors of rows that would lie on the wrong shard, or in a table that cannot hold them."""

from collections.abc import Iterable, Sequence

from apportion.errors.root import Unsafe
from apportion.errors.shown import listed, shown

_PUBLIC = "apportion.errors"
_WITHOUT_NUMBER: dict[object, str] = {
    "any": "may reach any slot",
    "another": "goes to another slot",
    None: "has no slot on this shard",
}


class CrossShard(Unsafe):
    """A row or a statement of a slot to which the session is not pinned."""

    __module__ = _PUBLIC

    def __init__(
        self, key: object, slot: int | str | None, pinned: Iterable[int], hint: str = "Open a session of that key."
    ) -> None:
        slots = tuple(pinned)
        kept = f"slot {slots[0]}" if len(slots) == 1 else f"slots {listed([str(slot) for slot in slots])}"
        place = _WITHOUT_NUMBER.get(slot, f"goes to slot {slot}")
        problem = f"{shown(key)} {place}, and this session is pinned to {kept}."
        super().__init__(problem, f"Nothing was written. {hint}")
        self.key: object = key
        self.slot: object = slot
        self.pinned: tuple[int, ...] = slots


class SchemaDiffers(Unsafe):
    """Two schemas that must be equal differ: the schemas of two shards, or the models and the schema of a shard."""

    __module__ = _PUBLIC

    def __init__(self, first: str, second: str, differences: Sequence[str]) -> None:
        problem = f"{first} and {second} have different schemas: {listed(differences)}."
        super().__init__(problem, "Nothing was done. Bring both to one schema, and try again.")
        self.first: str = first
        self.second: str = second
        self.differences: tuple[str, ...] = tuple(differences)


class Unequal(Unsafe):
    """Rows of a moving slot that differ between its two shards, though no writer of the source changed them."""

    __module__ = _PUBLIC

    def __init__(self, table: str, rows: Sequence[str], why: str, hint: str = "") -> None:
        hint = hint or "The writers are not affected. Find the program that wrote to the target, then go on."
        super().__init__(f"table {shown(table)} {why}: {listed(rows)}.", hint)
        self.table: str = table
        self.rows: tuple[str, ...] = tuple(rows)


class NotScatterable(Unsafe):
    """A statement that the shards of a set cannot answer together as one database would."""

    __module__ = _PUBLIC

    def __init__(self, statement: object, reason: str) -> None:
        hint = "Nothing was read. See which statements work: docs/shards/scatter.md"
        super().__init__(f"the statement has no answer over all shards: {reason}.", hint)
        self.statement: str = shown(statement)
        self.reason: str = reason
