"""`apportion doctor --store`: checks that a store is reachable and well set up; shows its promises and its speed.

`records` and `schedules` read the content of the store.

Promises: the check leaves nothing behind. A missing file or schema is not created.
"""

import asyncio
from dataclasses import asdict
from typing import get_args

from apportion.console.doctor.records import read_records
from apportion.console.doctor.schedules import read_schedules
from apportion.console.print.output import print_columns, print_json, print_text
from apportion.console.print.progress import Progress
from apportion.errors import ApportionError
from apportion.stores import Capabilities, Need
from apportion.stores.administration import Finding
from apportion.stores.catalog import administration, get, schemes
from apportion.stores.clear_text import hosts_in_clear
from apportion.stores.speed import TRIES, Measured, measured
from apportion.stores.url import StoreUrl, parse

_INSPECT_SECONDS = 5.0


def doctor_store(url: str, *, json: bool) -> int:
    """Diagnose one store; return the exit code."""
    parsed = parse(url, schemes=schemes())
    with Progress("checking", is_shown=not json):
        findings, speed = _found(parsed, url)
    (_print_json if json else _print)(str(parsed), findings, speed)
    return 1 if _ill(findings, "error") else 0


def _found(parsed: StoreUrl, url: str) -> tuple[tuple[Finding, ...], Measured | None]:
    """Return the findings, and the speed of a store that answers."""
    findings = (*_of_encryption(parsed), *asyncio.run(_inspected(url)))
    speed = None
    if not _ill(findings, "error") and not _ill(findings, "absent"):
        try:
            speed = asyncio.run(measured(parsed))
            has_tasks = any(each.subject == "tasks" for each in findings)
            findings = (*findings, *asyncio.run(read_records(url)))
            if has_tasks:
                findings = (*findings, *asyncio.run(read_schedules(url)))
        except ApportionError as error:
            found = Finding(subject="requests", found=error.problem, verdict="error", advice=error.hint)
            findings = (*findings, found)
    return findings, speed


def _of_encryption(url: StoreUrl) -> tuple[Finding, ...]:
    """Report requests that leave this machine in clear text; no finding for a store on this machine."""
    spec = get(url.scheme)
    if not (hosts := hosts_in_clear(spec, url)):
        return ()
    found, advice = f"clear text to {', '.join(hosts)}", f"To encrypt, {spec.encryption}"
    return (Finding(subject="encryption", found=found, verdict="error", advice=advice),)


async def _inspected(url: str) -> tuple[Finding, ...]:
    """Inspect a store, for at most as long as a user will wait."""
    store = administration(url)
    try:
        async with asyncio.timeout(_INSPECT_SECONDS):
            return await store.inspect()
    except TimeoutError:
        found, advice = f"no answer within {_INSPECT_SECONDS:g} s", "Is the server running, and can this host reach it?"
        return (Finding(subject="server", found=found, verdict="error", advice=advice),)


def _print(store: str, findings: tuple[Finding, ...], speed: Measured | None) -> None:
    print_columns(("check", "verdict", "found"), [(each.subject, each.verdict, each.found) for each in findings])
    print()
    if speed is not None:
        print_columns(("promise", "given"), list(_promises(speed.capabilities).items()))
        print()
        rows = [(request, f"{taken:.2f}") for request, taken in speed.milliseconds.items()]
        print_columns(("request", f"ms (median of {TRIES})"), rows)
        print()
    for each in findings:
        if each.verdict != "ok":
            print_text(f"{each.subject}: {each.advice}")
    errors, warnings = (len(_ill(findings, verdict)) for verdict in ("error", "warning"))
    print_text(f"doctor: {store}: {len(findings)} checks, errors {errors}, warnings {warnings}")


def _print_json(store: str, findings: tuple[Finding, ...], speed: Measured | None) -> None:
    print_json(
        "doctor",
        healthy=not _ill(findings, "error"),
        store=store,
        findings=[asdict(each) for each in findings],
        promises=None if speed is None else asdict(speed.capabilities),
        milliseconds=None if speed is None else speed.milliseconds,
    )


def _promises(capabilities: Capabilities) -> dict[str, str]:
    """Return the printed lines: the promises that a store gives, those that it does not give, and its limits."""
    needs = {need: "yes" if getattr(capabilities, need) else "NO" for need in get_args(Need)}
    limits = {name: f"{value}" for name, value in asdict(capabilities).items() if name not in needs}
    return needs | limits


def _ill(findings: tuple[Finding, ...], verdict: str) -> list[Finding]:
    return [each for each in findings if each.verdict == verdict]
