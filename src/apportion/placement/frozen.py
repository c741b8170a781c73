"""Frozen: the answers of a saved table, for a process that routes but does not decide.

Promises: the owners that the table lists. The native twin lays out a snapshot for lookups without making the table. The
table is then made at its first use.
Refuses: to guess the nodes after the owners of a range, and to move to another topology. Both need the placement that
made the table.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

from apportion import native
from apportion.errors import CannotPlace, InvalidInput, NotEnoughNodes
from apportion.errors.brief import brief
from apportion.model import codec
from apportion.model.codec.bodies import TABLE_MEMBERS, topology_of
from apportion.model.codec.parsing import integer, members, text
from apportion.model.plan import Key
from apportion.model.table import MAX_TOKENS, Table
from apportion.model.topology import Topology
from apportion.placement import catalog
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import Hasher, resolve
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.shapes.tabular import Tabular
from apportion.placement.spread import Spread, check_options


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Frozen(Tabular):
    """A table, and the hasher that makes positions in it. Lookup: O(log stretches).

    >>> from apportion import Ring, encode
    >>> frozen = Frozen.load(encode(Ring(["a", "b", "c"]).table()))
    >>> frozen.route("tenant-42"), frozen
    ('c', Frozen(Topology(3 nodes, no zones, epoch 1:618cb04a), hasher='xxh3-64'))
    """

    _snapshot: bytes = field(compare=False)
    _saved: list[Table] = field(compare=False)

    def __init__(self, table: Table, *, hasher: str | Hasher | None = None) -> None:
        if not isinstance(table, Table) or not table.is_measurable:
            hint = "Pass the table() of a placement that hashes keys. For ranges of bytes, route by the Ranges itself."
            raise InvalidInput("table", table, "a Table over tokens", hint)
        self._fill_frozen(table.topology, _hasher_of(table.hasher, hasher), [table])
        self._lay_table(self._leaders)

    @classmethod
    def load(cls, data: bytes, *, cluster: str | None = None, hasher: str | Hasher | None = None) -> Self:
        """Return the table of a snapshot; `hasher` is needed only for a hasher with a secret, or of your own.

        O(size). Raises `BadSnapshot` as `decode` does.
        """
        if native.IN_USE and (frozen := cls._laid_by_twin(data, cluster, hasher)):
            return frozen
        return cls(codec.decode(data, Table, cluster=cluster), hasher=hasher)

    @classmethod
    def _laid_by_twin(cls, data: bytes, cluster: str | None, hasher: str | Hasher | None) -> Self | None:
        """Return the table from a snapshot's columns; None for a snapshot that must be read in full, or refused."""
        body, columns, named = codec.unsealed(data, Table, cluster=cluster)
        if not isinstance(data, bytes) or "starts_lengths" in columns:
            return None
        with codec.naming(Table):
            label, slots, replicas, inner = members(body, *TABLE_MEMBERS)
            topology = topology_of(inner, "", columns, named)
            named_hasher, shape = text(label), (integer(replicas), integer(slots))
        if not (1 <= shape[0] <= len(topology) and 0 <= shape[1] <= MAX_TOKENS):
            return None
        chosen = _hasher_of(named_hasher, hasher)
        frozen = cls.__new__(cls)
        spans = columns.span("starts"), columns.span("owners")
        if columns.spans or not native.extension.lay_columns(frozen, topology.ids, chosen, data, spans, shape):
            return None
        frozen._fill_frozen(topology, chosen, [], data)
        return frozen

    def _fill_frozen(self, topology: Topology, hasher: Hasher, saved: list[Table], snapshot: bytes = b"") -> None:
        self._fill(topology, hasher)
        object.__setattr__(self, "_saved", saved)
        object.__setattr__(self, "_snapshot", snapshot)

    @property
    def saved(self) -> Table:
        """The saved table, with all owners of each range. For a snapshot, it is made at its first use."""
        if not self._saved:
            self._saved.append(codec.decode(self._snapshot, Table))
        return self._saved[0]

    @property
    def slot_count(self) -> int | None:
        """The number of slots of the table, None if it is not made of slots."""
        return self.saved.slots

    def _make_table(self) -> Table:
        return self._table_of(1)

    def table(self, replicas: int = 1, *, spread_level: int | None = None, spread: Spread = "strict") -> Table:
        """Return the table of the first `replicas` owners; `NotEnoughNodes` if a range has fewer. O(stretches)."""
        check_options(replicas, spread_level, spread)
        return self._leaders if replicas == 1 else self._table_of(replicas)

    def _table_of(self, replicas: int) -> Table:
        shortest = min(self.saved.rows, key=len)
        if len(shortest) < replicas:
            owners = tuple(self.topology.ids[index] for index in shortest)
            raise NotEnoughNodes(replicas, owners, f"from a table of {len(owners)} per range")
        return replace(self.saved, rows=tuple(row[:replicas] for row in self.saved.rows))

    def _preferred(self, key: Key, count: int, *, spread_level: int | None, spread: Spread) -> tuple[str, ...]:
        """Return the first `count` owners of the key's range. The maker of the table decides about their zones."""
        check_options(count, spread_level, spread)
        owners = self.saved.owners(self._position(key_bytes(key)))
        if count > len(owners):
            raise NotEnoughNodes(count, owners, f"from a table of {len(owners)} per range")
        return owners[:count]

    def explain(self, key: Key) -> Explanation:
        """Return the range that a key lies in, and its owners in their order."""
        data = key_bytes(key)
        position = self._position(data)
        owner, *others = self.saved.owners(position)
        return Explanation(
            key=key,
            placement="table",
            hasher=self.hasher.label,
            hash=self.hasher(data),
            range=self.saved.range_at(position),
            owner=owner,
            why=f"the table gives the range to {owner}; it names no node after its owners",
            next=tuple(others),
        )

    def on(self, topology: Topology) -> Self:
        """Raise `CannotPlace`: a table does not know how it was made."""
        hint = "Call on(topology) of the placement that made the table, and publish the table of the result."
        raise CannotPlace(f"a table of {self.topology!r} names no owners on {topology!r}.", hint)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frozen) and self.saved == other.saved and self.hasher == other.hasher

    def __hash__(self) -> int:
        return hash((self.topology, self.hasher.label))

    def __reduce__(self) -> "tuple[partial[Frozen], tuple[Table]]":
        return partial(type(self), hasher=self.hasher), (self.saved,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.topology!r}, hasher={self.hasher.label!r})"


def _hasher_of(label: str, hasher: str | Hasher | None) -> Hasher:
    """Return the hasher of a table's label, or the hasher passed if its label is the same."""
    chosen = catalog.hasher(label) if hasher is None else resolve(hasher)
    if chosen.label != label:
        hint = "Leave it out, or pass the right one."
        raise InvalidInput("hasher", chosen.label, f"that of the table, {label}", hint)
    return chosen
