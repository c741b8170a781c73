"""`apportion compare`: every placement of the catalog on your nodes and your keys, side by side.

It prints columns or JSON, or writes a page with charts. `trial` tells how each value is measured.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random

from apportion.balance.comparison import KeyComparison, KeyTrial, PlacementRow, lacking_cell
from apportion.console.compare.baselines import baselines as all_baselines
from apportion.console.compare.page import page_of
from apportion.console.compare.report import BEST, HEADINGS, exact_shares, figures, notes
from apportion.console.compare.trial import measured, measured_baseline
from apportion.console.files.key_stream import Column, KeysFile, batches_of
from apportion.console.files.output_file import page_file
from apportion.console.options.arguments import Force, Json
from apportion.console.options.hasher import Hashing
from apportion.console.options.nodes import NodesSource
from apportion.console.pages.parts import command_line
from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.print.progress import Progress
from apportion.errors import InvalidInput
from apportion.placement import catalog

MADE_KEYS = 50_000
SEED = 1

_NOT_OF_BASELINES = (
    "loads", "refused", "own_hash", "ns_per_key", "size_bytes", "lacking_ratio", "is_last_only",
)  # fmt: skip


def compare(
    *,
    nodes: NodesSource = NodesSource(),  # noqa: B008 - a frozen value
    hashing: Hashing = Hashing(),  # noqa: B008
    keys: KeysFile = None,
    column: Column = None,
    baselines: bool = False,
    html: Path | None = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Measure all placements: evenness, moves for one node more and one node fewer, time, memory.

    Parameters
    ----------
    keys
        File with one key per line, or - for standard input (default: 50 000 made-up keys).
    baselines
        Measure random, single node, key ranges and modulo too, and give the fault of each.
    html
        Write a page with charts, tables and the baselines to this file.
    """
    reads = nodes.topology, hashing.hasher_key_file, None if keys is None else Path(keys)
    page = page_file(html, force=force, reads=reads)
    topology, hasher = nodes.load_topology(), hashing.load_hasher()
    with Progress("reading", "keys", is_shown=not json) as progress:
        listed = _listed(keys, column, progress)
    trial = KeyTrial.of(topology, listed, hasher)
    # The choices must be the same next time; they need not be secret.
    drawn = all_baselines(Random(SEED)) if baselines or html else ()  # noqa: S311
    names = catalog.names()
    with Progress("comparing", "methods", total=len(names) + len(drawn), is_shown=not json) as progress:
        rows = [measured(name, trial) for name in progress.each(names)]
        below = [measured_baseline(baseline, trial) for baseline in progress.each(drawn)]
    comparison = KeyComparison(trial, rows)
    if html is not None and page is not None:
        source = "made-up keys" if keys is None else "keys of standard input" if keys == "-" else f"keys of {keys}"
        command = _command(nodes, hashing, keys, column, html)
        page.write(page_of(comparison, below, source=source, command=command))
    shown = below if baselines else []
    if json:
        _print_json(comparison, shown, html)
        return
    print_text(f"{comparison.answer}\n")
    print_text(f"{topology!r}, {len(listed)} {'made-up ' if keys is None else ''}keys")
    _print(comparison)
    _print_baselines(shown)
    if html is not None:
        print(f"saved {html}")


def _listed(keys: str | None, column: str | None, progress: Progress) -> list[bytes]:
    """Return the keys of the file, or made-up keys."""
    if keys is None:
        return [b"key-%d" % number for number in range(MADE_KEYS)]
    listed = list(progress.joined(batches_of((), keys, column)))
    if not listed:
        raise InvalidInput("--keys", keys, "a file with at least one key", "Check the file.")
    return listed


def _command(nodes: NodesSource, hashing: Hashing, keys: str | None, column: str | None, html: Path) -> str:
    """Return the command line that makes the same page."""
    options = {
        "--nodes": nodes.nodes,
        "--topology": nodes.topology,
        "--hasher": hashing.hasher,
        "--hasher-key-file": hashing.hasher_key_file,
        "--keys": keys,
        "--column": column,
        "--html": html,
    }
    return command_line("compare", options)


def _print_json(comparison: KeyComparison, baselines: Sequence[PlacementRow], html: Path | None) -> None:
    trial = comparison.trial
    print_json(
        "compare",
        answer=comparison.answer,
        keys=len(trial.keys),
        add_bound=trial.add_bound,
        remove_bound=trial.remove_bound,
        chance_variation=trial.chance_variation,
        placements=[_members(row, without=("loads", "why_not")) for row in comparison.rows],
        baselines=[_members(row, without=_NOT_OF_BASELINES) for row in baselines],
        page=None if html is None else str(html),
    )


def _members(row: PlacementRow, *, without: Sequence[str]) -> dict[str, object]:
    return {name: value for name, value in asdict(row).items() if name not in without}


def _print(comparison: KeyComparison) -> None:
    trial, rows = comparison.trial, comparison.measured
    headings = (*HEADINGS, *comparison.lacking_heading, "ns/key", "bytes")
    best = (*exact_shares(trial), *("0.0%" for _ in comparison.lacking_heading), "", "")
    cells = [(*_cells(row), *lacking_cell(row), f"{row.ns_per_key:.0f}", f"{row.size_bytes}") for row in rows]
    print_columns(("placement", *headings), [*cells, (BEST, *best)])
    for words in notes(comparison):
        print_text(words)
    for reason, names in comparison.refusals.items():
        print_text(f"{', '.join(names)}: {reason}")


def _print_baselines(rows: Sequence[PlacementRow]) -> None:
    if rows:
        print()
        print_columns(("baseline", *HEADINGS), map(_cells, rows))
    for row in rows:
        print_text(f"{row.placement}: {row.why_not}.")


def _cells(row: PlacementRow) -> tuple[str, ...]:
    return (f"! {row.placement}" if row.lacking_ratio else row.placement, *figures(row))
