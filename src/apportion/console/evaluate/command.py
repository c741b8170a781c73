"""`apportion evaluate`: balancers side by side on clusters that fail, grow and change.

It uses your own clusters, or the eight clusters of the preset `helix-paper`. The preset follows the published
evaluation of CrushED. It prints columns or JSON, or writes a page with charts.

Promises: an interrupted run leaves nothing behind; a page is written whole, at the end.
"""

import time
from pathlib import Path

from apportion.balance.evaluation import Findings, Refusal, TrialResult
from apportion.console.evaluate.options import EvaluateOptions
from apportion.console.evaluate.page import page_of
from apportion.console.evaluate.report import print_report, print_result
from apportion.console.files.output_file import page_file
from apportion.console.options.arguments import Force, Json
from apportion.console.print.progress import Progress
from apportion.errors import CannotPlace


def evaluate(
    *,
    asked: EvaluateOptions = EvaluateOptions(),  # noqa: B008 - a frozen value
    html: Path | None = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare balancers: their evenness, and their moves when nodes fail, return, are added or change.

    Parameters
    ----------
    html
        Write a page with charts and tables to this file.
    """
    page = page_file(html, force=force, reads=(asked.scenario,))
    trial = asked.trial()
    results: list[TrialResult] = []
    refused: list[Refusal] = [*trial.skipped]
    with Progress("evaluating", "results", total=len(trial), is_shown=not json) as progress:
        for each in progress.each(trial.run(time.perf_counter)):
            (results if isinstance(each, TrialResult) else refused).append(each)  # type: ignore[arg-type]
    findings = Findings.of(trial, results, refused)
    if html is not None and page is not None:
        page.write(page_of(findings, command=asked.command(html)))
    if json:
        print_result(findings, page=None if html is None else str(html))
    else:
        print_report(findings)
        if html is not None:
            print(f"saved {html}")
    if not results:
        hint = "Name other balancers, or another cluster; the lines above give the reason of each."
        raise CannotPlace("none of the balancers could place anything.", hint)
