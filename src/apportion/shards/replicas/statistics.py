"""MapStatistics: the counts of one opened map."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MapStatistics:
    """Counts since the map was opened.

    - `puts`, `gets`: the calls that ended well, by key; a deletion counts as a put.
    - `failed`: the keys of calls that ended with an error.
    - `sent_again`: the writes that were sent again above a later one.
    - `written_back`: the gets that made their version safe before they returned.
    - `refreshed`: the times that the table was read again.
    - `silent`: the nodes that are cut off now, because they gave no answer three times in a row.
    """

    puts: int = 0
    gets: int = 0
    failed: int = 0
    sent_again: int = 0
    written_back: int = 0
    refreshed: int = 0
    silent: tuple[str, ...] = ()
