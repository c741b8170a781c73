"""`apportion doctor --store`: checks that a store is reachable and well set up; shows its promises and its speed.

`doctor_records` reads the content of the store.

Promises: the check leaves nothing behind. Measurements happen in a namespace of their own, which is deleted. A
missing file or schema is not created.
"""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import asdict, dataclass, replace
from secrets import token_hex
from statistics import median
from typing import TypeVar, get_args

from apportion.console.doctor.records import read_records
from apportion.console.print.output import print_columns, print_json
from apportion.errors import ApportionError, StoreUnavailable
from apportion.runtime.clock import SystemClock
from apportion.stores import Absent, Capabilities, Committed, CoordinationStore, Need, Outcome, Put, Unchanged
from apportion.stores.administration import Finding
from apportion.stores.catalog import administration, get, schemes
from apportion.stores.clear_text import hosts_in_clear
from apportion.stores.url import StoreUrl, parse

_INSPECT_SECONDS = 5.0
_TRIES = 5
_TTL_SECONDS = 10.0
Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Measured:
    """The promises of a store at the time of the connection, and the median milliseconds of each request."""

    capabilities: Capabilities
    milliseconds: dict[str, float]


def doctor_store(url: str, *, json: bool) -> int:
    """Diagnose one store; return the exit code."""
    parsed = parse(url, schemes=schemes())
    findings = (*_of_encryption(parsed), *asyncio.run(_inspected(url)))
    measured = None
    if not _ill(findings, "error") and not _ill(findings, "absent"):
        try:
            measured = asyncio.run(_measured(parsed))
            findings = (*findings, *asyncio.run(read_records(url)))
        except ApportionError as error:
            found = Finding(subject="requests", found=error.problem, verdict="error", advice=error.hint)
            findings = (*findings, found)
    (_print_json if json else _print)(str(parsed), findings, measured)
    return 1 if _ill(findings, "error") else 0


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
        found, advice = f"no answer within {_INSPECT_SECONDS:g} s", "Is it running, and in reach of this host?"
        return (Finding(subject="server", found=found, verdict="error", advice=advice),)


async def _measured(url: StoreUrl) -> Measured:
    """Measure requests in a namespace that no one else uses."""
    elsewhere = replace(url, namespace=f"doctor-{token_hex(8)}")
    store = await get(url.scheme).connect(elsewhere, SystemClock())
    try:
        return Measured(store.capabilities(), await _milliseconds(store, str(url)))
    finally:
        await store.close()


async def _milliseconds(store: CoordinationStore, name: str) -> dict[str, float]:
    scans, commits, renewals = [], [], []
    lease = await store.grant(ttl_seconds=_TTL_SECONDS)
    try:
        for _ in range(_TRIES):
            _, taken = await _timed(store.scan(""))
            scans.append(taken)
            _, taken = await _timed(store.renew([lease.id]))
            renewals.append(taken)
            put = Put(key="try", value=bytes(100), lease=lease.id)
            written, taken = await _timed(store.commit(when=[Absent(key="try")], puts=[put]))
            commits.append(taken)
            compare = Unchanged(key="try", revision=_revision(written, name))
            _revision(await store.commit(when=[compare], deletes=["try"]), name)
    finally:
        await store.revoke(lease.id)  # this also deletes the key, if it is still there
    return {"scan": median(scans), "commit": median(commits), "renew": median(renewals)}


async def _timed(asked: Awaitable[Reply]) -> tuple[Reply, float]:
    started = time.perf_counter()
    reply = await asked
    return reply, 1000 * (time.perf_counter() - started)


def _revision(outcome: Outcome, store: str) -> int:
    if not isinstance(outcome, Committed):
        raise StoreUnavailable(store, f"a trial commit was answered by {type(outcome).__name__}")
    return outcome.revision


def _print(store: str, findings: tuple[Finding, ...], measured: Measured | None) -> None:
    print_columns(("check", "verdict", "found"), [(each.subject, each.verdict, each.found) for each in findings])
    print()
    if measured is not None:
        print_columns(("promise", "given"), list(_promises(measured.capabilities).items()))
        print()
        rows = [(request, f"{taken:.2f}") for request, taken in measured.milliseconds.items()]
        print_columns(("request", f"ms (median of {_TRIES})"), rows)
        print()
    for each in findings:
        if each.verdict != "ok":
            print(f"{each.subject}: {each.advice}")
    errors, warnings = (len(_ill(findings, verdict)) for verdict in ("error", "warning"))
    print(f"doctor: {store}: {len(findings)} checks, errors {errors}, warnings {warnings}")


def _print_json(store: str, findings: tuple[Finding, ...], measured: Measured | None) -> None:
    print_json(
        "doctor",
        healthy=not _ill(findings, "error"),
        store=store,
        findings=[asdict(each) for each in findings],
        promises=None if measured is None else asdict(measured.capabilities),
        milliseconds=None if measured is None else measured.milliseconds,
    )


def _promises(capabilities: Capabilities) -> dict[str, str]:
    """Return the promises that a store can and cannot give, then its limits, as they are printed."""
    needs = {need: "yes" if getattr(capabilities, need) else "NO" for need in get_args(Need)}
    limits = {name: f"{value}" for name, value in asdict(capabilities).items() if name not in needs}
    return needs | limits


def _ill(findings: tuple[Finding, ...], verdict: str) -> list[Finding]:
    return [each for each in findings if each.verdict == verdict]
