"""Partition map: the owners of partitions as a picture, and a line for each move."""

from collections import Counter

from rich.text import Text

from apportion.console.demo.groups.work import PARTITIONS
from apportion.console.demo.screen import Screen, colour_of
from apportion.groups.view.view import View

_COLUMNS = 16


class PartitionMap:
    """The owners of partitions on a screen."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._owners: dict[int, str | None] = {}

    def look(self, view: View) -> None:
        """Show the owner of each partition, and print the moves."""
        owners = {partition: owned.ownership.owner for partition, owned in view.own.items()}
        moves: Counter[tuple[str, str]] = Counter()
        for partition, owner in owners.items():
            before = self._owners.get(partition)
            if owner != before and owner is not None:
                moves[before or "nobody", owner] += 1
        for (source, owner), count in sorted(moves.items()):
            noun = "partition" if count == 1 else "partitions"
            self._screen.say(f"         {count:2} {noun} from {source} to {owner}")
        self._owners |= {partition: owner for partition, owner in owners.items() if owner is not None}
        self._screen.show(_picture(owners, view))


def _picture(owners: "dict[int, str | None]", view: View) -> Text:
    text = Text()
    for partition in range(PARTITIONS):
        owner = owners.get(partition)
        text.append(f"{partition:3}", style="dim" if owner is None else colour_of(owner))
        text.append("\n" if partition % _COLUMNS == _COLUMNS - 1 else " ")
    loads = Counter(owner for owner in owners.values() if owner is not None)
    for name in sorted({*view.members, *loads}):
        text.append(f"{name}: {loads[name]}   ", style=colour_of(name))
    return text
