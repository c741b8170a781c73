"""The page of `apportion compare --html`: all measurements as charts and tables, in one file.

Promises: those of `pages/parts.py`. Every chart has a name, and a table shows its figures. The page has some 3 000
elements at most. If there are too many nodes to draw one by one, the page counts them by their load.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from html import escape

from apportion.balance.comparison import REPLICAS, KeyComparison, KeyTrial, PlacementRow, lacking_cell
from apportion.console.compare.report import BEST, HEADINGS, exact_shares, figures, notes
from apportion.console.pages.charts import Bar, bars, columns, titled_bars
from apportion.console.pages.parts import (
    document,
    figure,
    grouped,
    header,
    legend_of,
    name_of,
    percent,
    section,
    table_of,
    terms_of,
)

MOST_BARS = 300
"""The most bars of single nodes on the page. A node counts once per placement, and once more for its fair share."""

_LESS = "\N{MINUS SIGN}"
_EDGES = tuple(tenths / 10 for tenths in range(5, 16))
_COLUMN_NAMES = ("below 0.5", *(f"{edge:.1f} to {edge + 0.1:.1f}" for edge in _EDGES[:-1]), "1.5 or more")
_READING = (
    ("max/mean", "The keys of the fullest node over its fair share. At 1.20, the node has 20% more than its share."),
    ("variation", "The differences from the fair shares, as standard deviation over mean."),
    ("moved on add, on remove", "Keys that change nodes when a node joins or leaves. Compare with the last line."),
    ("stray", "Keys that move between two nodes that do not change. The larger value of the two changes is shown."),
    ("lacking", f"The share of keys without {REPLICAS} owners in distinct zones, counted on the first keys only."),
    ("ns/key, bytes", "Time per lookup in a large batch, with one thread on one machine; memory of the placement."),
)


def page_of(comparison: KeyComparison, baselines: Sequence[PlacementRow], *, source: str, command: str) -> bytes:
    """Return the page, in UTF-8. `source` names the origin of the keys, `command` makes the page again."""
    trial, measured = comparison.trial, comparison.measured
    sections = (
        _head(comparison, source, command),
        _figures(comparison),
        _movement(trial, measured),
        _evenness(trial, measured),
        _shares(trial, measured),
        _baselines(trial, baselines),
        section("How to read the columns", terms_of(_READING)),
    )
    return document(f"Placements compared on {len(trial.topology)} nodes", sections)


def _head(comparison: KeyComparison, source: str, command: str) -> str:
    trial = comparison.trial
    joining, leaving = trial.joining, trial.leaving
    cluster = f" of {name_of(trial.topology.cluster)}" if trial.topology.cluster else ""
    facts = (
        ("Nodes", escape(repr(trial.topology)) + cluster),
        ("Keys", f"{grouped(len(trial.keys))} {escape(source)}"),
        ("Hash function", f"{escape(trial.hasher.label)}, where a placement prescribes none of its own"),
        ("A node joins", f"{name_of(joining.id)}, weight {joining.weight:g}: {trial.add_bound:.2%} must move"),
        ("A node leaves", f"{name_of(leaving.id)}, weight {leaving.weight:g}: {trial.remove_bound:.2%} must move"),
        ("Chance", f"{trial.chance_variation:.1%} is the variation of exact shares over this number of keys"),
    )
    heading = f"{len(comparison.measured)} placements compared on {len(trial.topology)} nodes"
    return header(heading, comparison.answer, facts, command)


def _figures(comparison: KeyComparison) -> str:
    trial, lacking = comparison.trial, comparison.lacking_heading
    best = (BEST, "", *exact_shares(trial), *("0.0%" for _ in lacking), "", "")
    cells = [
        (
            _label(row), "its own" if row.own_hash else trial.hasher.label, *figures(row), *lacking_cell(row),
            grouped(round(row.ns_per_key)), grouped(row.size_bytes),
        )
        for row in comparison.measured
    ]  # fmt: skip
    words = "".join(f"<p>{escape(note)}</p>" for note in notes(comparison))
    refused = "".join(
        f"<li><b>{escape(', '.join(names))}</b>: {escape(reason)}</li>" for reason, names in comparison.refusals.items()
    )
    left_out = f"<h3>Not measured</h3><ul>{refused}</ul>" if refused else ""
    headings = ("placement", "hash", *HEADINGS, *lacking, "ns/key", "bytes")
    table = table_of("Every figure, with time and memory, the best first", headings, [*cells, best], best=BEST)
    return section("Figures", table + words + left_out)


def _label(row: PlacementRow) -> str:
    return f"! {row.placement}" if row.lacking_ratio else row.placement


def _movement(trial: KeyTrial, rows: Sequence[PlacementRow]) -> str:
    legend = legend_of(
        ("plain", "moved with a cause"),
        ("striped", "stray: moved without a cause"),
        ("mark", "the least that must move"),
        *_hollow_of(rows),
    )
    joins, leaves = name_of(trial.joining.id), name_of(trial.leaving.id)
    words = (
        f"<p>Upper bar (+): {joins} joins. Lower bar ({_LESS}): {leaves} leaves. "
        "At the end: the keys that move, and their number over the least that must move.</p>"
    )
    return section(
        "Keys that move when a node joins or leaves", words + legend + _movement_figure(trial, rows, "Keys that move")
    )


def _movement_figure(trial: KeyTrial, rows: Sequence[PlacementRow], caption: str) -> str:
    listed = [bar for row in rows for bar in _moved(trial, row)]
    most = max([bar.plain + bar.striped for bar in listed] + [trial.add_bound, trial.remove_bound])
    name = "Keys moved: " + "; ".join(
        f"{row.placement} {row.moved_on_add:.1%} on add, {row.moved_on_remove:.1%} on remove" for row in rows
    )
    cells = [
        (_label(row), f"{row.moved_on_add:.2%}", _times(row.moved_on_add, trial.add_bound), f"{row.stray_on_add:.2%}",
         f"{row.moved_on_remove:.2%}", _times(row.moved_on_remove, trial.remove_bound), f"{row.stray_on_remove:.2%}")
        for row in rows
    ]  # fmt: skip
    one = _times(1, 1)
    bound = ("the least", f"{trial.add_bound:.2%}", one, "0.00%", f"{trial.remove_bound:.2%}", one, "0.00%")
    headings = ("placement", "on add", "of the least", "stray", "on remove", "of the least", "stray")
    return figure(bars(listed, most=most, name=name), table_of(caption, headings, [*cells, bound]))


def _moved(trial: KeyTrial, row: PlacementRow) -> Iterable[Bar]:
    changes = (
        ("+", _label(row), row.moved_on_add, row.stray_on_add, trial.add_bound),
        (_LESS, "", row.moved_on_remove, row.stray_on_remove, trial.remove_bound),
    )
    for letter, label, moved, stray, bound in changes:
        yield Bar(
            label=label,
            letter=letter,
            value=f"{percent(moved)} · {_times(moved, bound)}",
            plain=moved - stray,
            striped=stray,
            is_hollow=bool(row.lacking_ratio),
            mark=bound,
        )


def _evenness(trial: KeyTrial, rows: Sequence[PlacementRow]) -> str:
    above = [_even(row, row.max_over_mean - 1, "+") for row in rows]
    varied = [_even(row, row.variation, mark=trial.chance_variation) for row in rows]
    charts = (("Fullest node above its fair share", above), ("Variation of all nodes", varied))
    pictures = "".join(titled_bars(title, listed) for title, listed in charts)
    cells = [(_label(row), f"{row.max_over_mean:.3f}", f"{row.variation:.2%}") for row in rows]
    chance = ("chance alone", "", f"{trial.chance_variation:.2%}")
    table = table_of("Evenness", ("placement", "max/mean", "variation"), [*cells, chance])
    legend = legend_of(("mark", "the best possible: exact shares, varied by chance alone"), *_hollow_of(rows))
    return section("Evenness", legend + figure(f'<div class="pair">{pictures}</div>', table))


def _even(row: PlacementRow, value: float, sign: str = "", mark: float | None = None) -> Bar:
    return Bar(label=_label(row), value=f"{sign}{value:.1%}", plain=value, mark=mark, is_hollow=bool(row.lacking_ratio))


def _hollow_of(rows: Sequence[PlacementRow]) -> Iterable[tuple[str, str]]:
    if any(row.lacking_ratio for row in rows):
        yield "hollow", "! lacking: the zone rule is broken"


def _shares(trial: KeyTrial, rows: Sequence[PlacementRow]) -> str:
    if (len(rows) + 1) * len(trial.fair_shares) <= MOST_BARS:
        return section("Share of each node", _shares_by_node(trial, rows))
    return section("How full nodes are", _shares_by_fullness(trial, rows))


def _shares_by_node(trial: KeyTrial, rows: Sequence[PlacementRow]) -> str:
    fair, total = trial.fair_shares, len(trial.keys)
    lacking = {_label(row) for row in rows if row.lacking_ratio}
    shares = {_label(row): {node_id: row.loads.get(node_id, 0) / total for node_id in fair} for row in rows}
    most = max(share for each in (fair, *shares.values()) for share in each.values())
    pictures = []
    for placement, own in shares.items():
        name = f"{placement}: shares of {len(own)} nodes, from {min(own.values()):.1%} to {max(own.values()):.1%}"
        is_hollow = placement in lacking
        listed = [
            Bar(label=id_, value=f"{own[id_]:.1%}", plain=own[id_], mark=fair[id_], is_hollow=is_hollow) for id_ in fair
        ]
        pictures.append(f"<div><h3>{escape(placement)}</h3>{bars(listed, most=most, name=name)}</div>")
    cells = [(id_, f"{fair[id_]:.2%}", *(f"{own[id_]:.2%}" for own in shares.values())) for id_ in fair]
    table = table_of("Share of the keys", ("node", "fair", *shares), cells)
    marks = ("plain", "share of the keys"), ("mark", "fair share, in proportion to weight")
    legend = legend_of(*marks, *_hollow_of(rows))
    return legend + figure(f'<div class="grid">{"".join(pictures)}</div>', table)


def _shares_by_fullness(trial: KeyTrial, rows: Sequence[PlacementRow]) -> str:
    full = {_label(row): _fullness(trial, row) for row in rows}
    counts = {placement: _counts(ratios.values()) for placement, ratios in full.items()}
    most = max((max(each) for each in counts.values()), default=0)
    pictures = []
    for placement, each in counts.items():
        ratios = full[placement]
        least, fullest = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        words = f"emptiest {name_of(least)} {ratios[least]:.2f}, fullest {name_of(fullest)} {ratios[fullest]:.2f}"
        name = f"{placement}: {sum(each[4:8])} of {len(ratios)} nodes have 0.8 to 1.2 of their fair share"
        chart = columns(each, edges=[f"{edge:.1f}" for edge in _EDGES], most=most, mark_after=6, name=name)
        pictures.append(f"<div><h3>{escape(placement)}</h3>{chart}<p>{words}</p></div>")
    table = table_of("Nodes by keys over fair share", ("keys over fair share", *counts), [
        (name, *(f"{each[place]}" for each in counts.values())) for place, name in enumerate(_COLUMN_NAMES)
    ])  # fmt: skip
    words = f"<p>{len(trial.fair_shares)} nodes, counted by their keys over their fair share.</p>"
    legend = legend_of(("plain", "nodes in this range"), ("dashes", "fair share"))
    return words + legend + figure(f'<div class="grid">{"".join(pictures)}</div>', table)


def _fullness(trial: KeyTrial, row: PlacementRow) -> dict[str, float]:
    total = len(trial.keys)
    return {node_id: row.loads.get(node_id, 0) / (fair * total) for node_id, fair in trial.fair_shares.items()}


def _counts(ratios: Iterable[float]) -> list[int]:
    counts = [0] * len(_COLUMN_NAMES)
    for ratio in ratios:
        counts[bisect_right(_EDGES, ratio)] += 1
    return counts


def _baselines(trial: KeyTrial, rows: Sequence[PlacementRow]) -> str:
    if not rows:
        return ""
    words = "<p>The literature starts from these placements. They are measured only; nothing routes by them.</p>"
    reasons = "".join(f"<li><b>{escape(row.placement)}</b>: {escape(row.why_not)}.</li>" for row in rows)
    table = table_of("Baselines", ("baseline", *HEADINGS), [(row.placement, *figures(row)) for row in rows])
    return section(
        "Baselines", f"{words}<ul>{reasons}</ul>{table}{_movement_figure(trial, rows, 'Keys that move, of baselines')}"
    )


def _times(moved: float, bound: float) -> str:
    times = moved / bound
    return f"{times:.{0 if times >= 100 else 1}f}\N{MULTIPLICATION SIGN}"
