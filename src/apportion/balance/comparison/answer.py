"""Answer of a comparison: the order of placements, and sentences that say which one suits these nodes, and why.

The order: placements that keep the zone rule come first, then those that can lose any node. Next are those with the
fewest stray moves, then the most even. Two placements are equally even if chance can explain the difference.

Promises: every sentence follows from the rows alone.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter

from apportion.balance.comparison.trial import PlacementRow
from apportion.model.phrases import be, listed, plural

_SHOWN_DIGITS = 4
Kind = tuple[bool, bool, float]
"""The key of a sort: whether the zone rule is broken, whether only the last node can leave, and the stray moves."""


def ranked(rows: Iterable[PlacementRow]) -> list[PlacementRow]:
    """Return the rows in the order of the answer; those that were not measured come last. O(rows log rows)."""
    return sorted(rows, key=lambda row: (bool(row.refused), kind_of(row), row.variation, row.placement))


def kind_of(row: PlacementRow) -> Kind:
    """Return the properties of a placement that count before its evenness; smaller is better."""
    return bool(row.lacking_ratio), row.is_last_only, round(row.stray, _SHOWN_DIGITS)


def answer(rows: Sequence[PlacementRow], *, place: str, chance: float) -> str:
    """Return the answer that these ranked rows give.

    `place` names the nodes. `chance` is the largest difference of two variations that chance alone can explain.
    """
    if not rows:
        return f"For your {place}, no placement could be measured."
    best, *others = rows
    equals = [row for row in others if kind_of(row) == kind_of(best)]
    sentences = [*_best(best, place), _beside(best, equals, has_others=bool(others), chance=chance)]
    return " ".join([*sentences, *_excluded(best, others, chance)])


def _best(best: PlacementRow, place: str) -> list[str]:
    does = ["can lose only its last node" if best.is_last_only else "can lose any node", _strays(best.stray)]
    if best.lacking_ratio is None:
        return [f"For your {place}, {best.placement} {' and '.join(does)}."]
    if best.lacking_ratio:
        comes_first = f"{best.placement} comes first: it {' and '.join(does)}."
        return [f"For your {place}, no measured placement keeps the zone rule.", comes_first]
    return [f"For your {place}, {best.placement} keeps the zone rule, {does[0]}, and {does[1]}."]


def _strays(stray: float) -> str:
    return f"moves {stray:.2%} of the keys without need" if stray else "moves no key without need"


def _beside(best: PlacementRow, equals: Sequence[PlacementRow], *, has_others: bool, chance: float) -> str:
    if not has_others:
        return "No other placement was measured."
    if not equals:
        return "No other measured placement does so."
    as_even = [row.placement for row in equals if row.variation <= best.variation + chance]
    if not as_even:
        return "No other such placement is as even."
    return f"{listed(as_even)} {plural(as_even, 'does', 'do')} so too, and {be(as_even)} as even within chance."


def _excluded(best: PlacementRow, others: Sequence[PlacementRow], chance: float) -> list[str]:
    """Return a sentence for each reason that keeps an equally or more even row from being the best row."""
    reasons: dict[tuple[str, str], list[PlacementRow]] = {}
    for row in others:
        if kind_of(row) != kind_of(best) and row.variation <= best.variation + chance:
            word = "more even" if row.variation < best.variation - chance else "as even"
            reasons.setdefault((word, _reason(row, best)), []).append(row)
    return [_but(word, reason, rows) for (word, reason), rows in reasons.items()]


def _reason(row: PlacementRow, best: PlacementRow) -> str:
    """Return the first property in which a row is behind the best."""
    if kind_of(row)[0] != kind_of(best)[0]:
        return "zones"
    return "last" if row.is_last_only != best.is_last_only else "stray"


def _but(word: str, reason: str, rows: Sequence[PlacementRow]) -> str:
    names = [row.placement for row in rows]
    strays = sorted({f"{row.stray:.2%}": row.stray for row in rows}.items(), key=itemgetter(1))
    span = " to ".join(dict.fromkeys((strays[0][0], strays[-1][0])))
    drawbacks = {
        "zones": plural(names, "does not keep the zone rule", "do not keep the zone rule"),
        "last": f"only {plural(names, 'its', 'their')} last node can leave",
        "stray": f"{plural(names, 'moves', 'move')} {span} of the keys without need",
    }
    return f"{listed(names)} {be(names)} {word}, but {drawbacks[reason]}."
