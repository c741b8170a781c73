"""Report of `compare`: the figures of a placement as words, for columns and for the page alike."""

from collections.abc import Iterator

from apportion.balance.comparison import REPLICAS, KeyComparison, KeyTrial, PlacementRow

HEADINGS = ("max/mean", "variation", "moved on add", "on remove", "stray")
BEST = "exact shares"


def figures(row: PlacementRow) -> tuple[str, ...]:
    """Return the figures of a row under `HEADINGS`."""
    moved = (f"{row.moved_on_add:.2%}", f"{row.moved_on_remove:.2%}", f"{row.stray:.2%}")
    return (f"{row.max_over_mean:.3f}", f"{row.variation:.1%}", *moved)


def exact_shares(trial: KeyTrial) -> tuple[str, ...]:
    """Return the figures of exact shares: the best possible ones."""
    return ("1.000", "0.0%", f"{trial.add_bound:.2%}", f"{trial.remove_bound:.2%}", "0.00%")


def notes(comparison: KeyComparison) -> Iterator[str]:
    """Yield notes on the rows: the best possible row, lacking replicas, and hash functions."""
    if comparison.trial.has_zones:
        yield f"With the zone rule too, {BEST} are the best possible, because the loads count one owner per key."
    if any(row.lacking_ratio for row in comparison.measured):
        yield f"! lacking: keys without {REPLICAS} owners in distinct zones."
    own = [row.placement for row in comparison.measured if row.own_hash]
    if own:
        yield f"With a hash function of their own, not {comparison.trial.hasher.label}: {', '.join(own)}."
