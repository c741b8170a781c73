"""Draw 64 partitions on three nodes as moves.svg, and show the partitions that move if a fourth node joins.

The left half places a partition by its number modulo the number of nodes. The right half is `balance.slots`.
"""

from collections.abc import Iterator
from pathlib import Path

from apportion import Topology, balance

COLOURS = ("#4477aa", "#aa3377", "#1b7a2f", "#a85400")
STYLE = """text{font:15px sans-serif;fill:#333}.new{fill:#fff;text-anchor:middle}.stays{opacity:.3}
@media(prefers-color-scheme:dark){text{fill:#ddd}}"""


def panel(left: int, title: str, before: list[int], after: list[int]) -> Iterator[str]:
    moved = [old != new for old, new in zip(before, after, strict=True)]
    yield f'<text x="{left}" y="20">{title}: {sum(moved)} of 64 move</text>'
    for number, owner in enumerate(after):
        x, y = left + number % 8 * 30, 32 + number // 8 * 30
        kind = "moves" if moved[number] else "stays"
        yield f'<rect class="{kind}" x="{x}" y="{y}" width="28" height="28" rx="3" fill="{COLOURS[owner]}"/>'
        if moved[number]:
            yield f'<text class="new" x="{x + 14}" y="{y + 19}">{owner + 1}</text>'


topology = Topology(["db-1", "db-2", "db-3"])
three = balance.slots(topology, count=64)
four = balance.slots(topology.add("db-4"), previous=three)
drawn = [
    *panel(0, "number % nodes", [number % 3 for number in range(64)], [number % 4 for number in range(64)]),
    *panel(290, "apportion", [row[0] for row in three.rows], [row[0] for row in four.rows]),
]
start = f'<svg xmlns="http://www.w3.org/2000/svg" width="530" height="272" viewBox="0 0 530 272"><style>{STYLE}</style>'
Path("moves.svg").write_text("\n".join([start, *drawn, "</svg>\n"]))
print(*(line[line.index(">") + 1 : -len("</text>")] for line in drawn if " move<" in line), sep="\n")

# Prints:
# number % nodes: 46 of 64 move
# apportion: 16 of 64 move
