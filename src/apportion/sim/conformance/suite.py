"""The suite: all cases, and the function that runs one case against a rig.

Each case runs in an event loop and a namespace of its own, in real time.
"""

import asyncio
from secrets import token_hex

from apportion.sim.conformance.case import Case
from apportion.sim.conformance.context import PATIENCE_SECONDS, Stage
from apportion.sim.conformance.promises import (
    commits,
    denials,
    faults,
    handles,
    leases,
    limits,
    processes,
    restores,
    scans,
    task_claims,
    task_controls,
    task_enqueues,
    task_faults,
    task_handles,
    task_keys,
    task_lives,
    task_settlements,
    task_triggers,
    watches,
)
from apportion.sim.conformance.rig import Impossible, Rig

CASE_SECONDS = 90.0
_FILES = (commits, limits, scans, watches, leases, faults, denials, restores, processes, handles)
_OF_TASKS = (
    task_enqueues,
    task_claims,
    task_settlements,
    task_lives,
    task_controls,
    task_keys,
    task_triggers,
    task_faults,
    task_handles,
)


def cases() -> tuple[Case, ...]:
    """Return all cases, in the order of their files."""
    return tuple(each for file in (*_FILES, *_OF_TASKS) for each in vars(file).values() if isinstance(each, Case))


def check(case: Case, rig: Rig, *, patience_seconds: float = PATIENCE_SECONDS) -> str | None:
    """Run a case. Return the missing capability when the case was skipped, None when the store kept its promise.

    A broken promise raises `AssertionError`. Another error of this library also fails the case: a healthy store would
    raise none here.
    """
    return asyncio.run(_checked(case, rig, patience_seconds))


async def _checked(case: Case, rig: Rig, patience_seconds: float) -> str | None:
    stage = Stage(rig, f"case-{token_hex(6)}", patience_seconds=patience_seconds)
    async with stage:
        for need in case.needs:
            if not getattr(stage.able, need):
                return need
        try:
            async with asyncio.timeout(CASE_SECONDS):
                await case.run(stage)
        except Impossible as impossible:
            return stage.excused(impossible)
        except TimeoutError as error:
            raise AssertionError(f"it took longer than {CASE_SECONDS:g} s: {case.promise}") from error
    return None
