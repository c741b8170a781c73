"""Phrases: names in a sentence, with the verb that fits their number."""

from collections.abc import Sequence

MOST_NAMES = 4


def listed(names: Sequence[str]) -> str:
    """Return names as a list in a sentence; above four names, the first three and the number of the others.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"]), listed(list("abcdef"))
    ('a', 'a and b', 'a, b and c', 'a, b, c and 3 more')
    """
    shown = (
        list(names) if len(names) <= MOST_NAMES else [*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1} more"]
    )
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def plural(names: Sequence[object], one: str, many: str) -> str:
    """Return the word for one, or the word for many."""
    return one if len(names) == 1 else many


def be(names: Sequence[object]) -> str:
    """Return "is" or "are"."""
    return plural(names, "is", "are")
