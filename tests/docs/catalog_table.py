"""The table of placements in docs/algorithms/index.md, made from their `SPEC`s.

`python -m tests.docs.catalog_table` writes it into the page; the test holds the page to it.
"""

from pathlib import Path

from apportion.placement import PlacementSpec, get, names

PAGE = Path(__file__).parents[2] / "docs" / "algorithms" / "index.md"
BEGIN = "<!-- table of SPECs: begin -->\n"
END = "<!-- table of SPECs: end -->\n"

HEADINGS = (
    "name", "lookup", "minimal disruption", "weights", "preference lists", "table, exact plans", "may leave",
    "built on", "source",
)  # fmt: skip


def catalog_table() -> str:
    """Return the table in Markdown, one row for each placement that comes with the library."""
    specs = [spec for spec in map(get, names()) if spec.build.__module__.startswith("apportion.")]
    rows = [HEADINGS, ("---",) * len(HEADINGS), *map(_cells, specs)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def page_with_table(text: str) -> str:
    """Return the page with the table between its marks made anew."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}{catalog_table()}{END}{tail}"


def _cells(spec: PlacementSpec) -> tuple[str, ...]:
    promises = (spec.minimal_disruption, spec.weighted, spec.ranked, spec.tabular)
    return (
        f"[{spec.name}]({spec.name}.md)",
        spec.lookup,
        *("yes" if promise else "no" for promise in promises),
        spec.removes,
        spec.takes,
        spec.source,
    )


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text()))
