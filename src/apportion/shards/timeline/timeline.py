"""Timeline of a shard in PostgreSQL: the cluster, and the number that grows when a standby is promoted.

A promoted standby may lack the last commits of the old primary, and with them the fence of a move. Then it would accept
writers of slots that lie elsewhere by now. So the control store notes the timeline of each shard, and each new
connection compares its server with the note.

On a later timeline of the same cluster, writes go on by themselves if each slot row agrees with the newest table. No
move of the shard may be under way then. In all other cases an operator decides: `apportion shards accept-failover`.

Refuses: to guess an order of two clusters. An earlier timeline is that of an old primary that came back.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from apportion.errors import StoreWentBack
from apportion.model.codec.parsing import refuse, text
from apportion.shards.slot_rows import SlotRow
from apportion.shards.slots import SlotTable

_FORM = re.compile(r"([1-9]\d{0,19})/([1-9]\d{0,9})")
_MOST_NAMED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The system identifier of a cluster, and the number of its timeline. The number of a standby is 0.

    >>> str(Timeline(cluster="7712776492628838731", number=2))
    '7712776492628838731/2'
    """

    cluster: str
    number: int

    def __str__(self) -> str:
        return f"{self.cluster}/{self.number}"

    @classmethod
    def of(cls, value: object) -> "Timeline":
        """Return the timeline that a record names. `BadSnapshot` for a text of another form."""
        found = _FORM.fullmatch(text(value))
        if found is None:
            refuse(value, "a cluster and a timeline, such as 7712776492628838731/1")
        return cls(cluster=found[1], number=int(found[2]))

    def is_part_of(self, noted: "Timeline | None") -> bool:
        """Whether this is the noted timeline. A standby of the same cluster counts too, because it takes no writes."""
        return noted is not None and self.cluster == noted.cluster and self.number in (0, noted.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """The slots with a row that does not agree with the table, on one shard.

    - `losing`: slots of other shards that this shard accepts, or may accept soon.
    - `winning`: slots of this shard that it does not accept, though it has their rows.
    - `lost`: slots that moved to this shard, while its server does not know the move. It may lack their rows.
    - `ahead`: slots with a number above the version of the table.
    """

    losing: tuple[int, ...] = ()
    winning: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    ahead: tuple[int, ...] = ()


def disagreement(
    shard: str, rows: Mapping[int, SlotRow], table: SlotTable, left_out: Collection[int] = ()
) -> Disagreement:
    """Compare the slot rows of a shard with the table. O(slots).

    >>> from apportion.tables.layout import Version
    >>> table = SlotTable(version=Version(incarnation=1, number=3), hash_slots=2, owners={0: "a", 1: "b"}, pinned={})
    >>> disagreement("a", {0: SlotRow(state="owner"), 1: SlotRow(state="owner")}, table)
    Disagreement(losing=(1,), winning=(), lost=(), ahead=())
    """
    found: dict[str, list[int]] = {"losing": [], "winning": [], "lost": [], "ahead": []}
    for slot in sorted({*table.owners, *rows}.difference(left_out)):
        kind = _kind(rows.get(slot), table, is_ours=table.owners.get(slot) == shard)
        if kind:
            found[kind].append(slot)
    return Disagreement(**{kind: tuple(slots) for kind, slots in found.items()})


def _kind(row: SlotRow | None, table: SlotTable, *, is_ours: bool) -> str:
    """Return the kind of disagreement of a slot, "" if its row agrees with the table.

    An incoming slot has the number of a version that is not published yet, and perhaps never will be.
    """
    if row is not None and row.state != "incoming" and row.number is not None and row.number > table.version:
        return "ahead"
    if not is_ours:
        return "" if row is None or row.state == "moved" else "losing"
    if row is None or row.state == "moved" or (row.state == "incoming" and row.number is None):
        return "lost"
    return "" if row.state == "owner" else "winning"


def objections(noted: Timeline, found: Timeline, wrong: Disagreement, moves: Collection[str]) -> tuple[str, ...]:
    """Return the objections to a timeline other than the noted one. Return () if writes may go on.

    `moves` names the moves and pins of the shard that are under way.

    >>> before, after = Timeline(cluster="7", number=1), Timeline(cluster="7", number=2)
    >>> objections(before, after, Disagreement(), ())
    ()
    >>> objections(before, after, Disagreement(losing=(5,)), ())
    ('it accepts slot 5, which lies elsewhere',)
    """
    said = []
    if found.cluster != noted.cluster:
        said.append("it is another cluster")
    elif found.number < noted.number:
        said.append("it is an earlier primary")
    for slots, words in (
        (wrong.losing, "it accepts {}, which {} elsewhere"),
        (wrong.winning, "it does not accept {}, which {} here"),
        (wrong.lost, "it may lack rows of {}, which {} here"),
        (wrong.ahead, "the table is older than the shard's {}"),
    ):
        said += [words.format(_named(slots), "lie" if len(slots) > 1 else "lies")] if slots else []
    return (*said, *(f"move {move} is under way" for move in sorted(moves)[:_MOST_NAMED]))


def went_back(place: tuple[str, str], noted: Timeline | None, found: Timeline, said: Collection[str]) -> StoreWentBack:
    """Return the error of a shard on another timeline, with the command to give. `place` is the set and the shard."""
    name, shard = place
    words = "".join(f", and {each}" for each in said)
    error = StoreWentBack(
        f"shard {shard} of set {name}", f"timeline {noted}", f"its server has timeline {found}{words}"
    )
    command = f"apportion shards accept-failover URL {name} {shard}"
    error.hint = f"Look at it: {command} --check. Then run it without --check."
    if noted is not None and noted.cluster == found.cluster and found.number < noted.number:
        error.hint = f"Stop this old primary, so that the URL leads to the new one. To keep the old one: {command}"
    return error


def _named(slots: Collection[int]) -> str:
    """Return slots in words, the first ones by number."""
    shown, more = ", ".join(map(str, [*slots][:_MOST_NAMED])), len(slots) - _MOST_NAMED
    return f"slot{'s' if len(slots) > 1 else ''} {shown}{f' and {more} more' if more > 0 else ''}"
