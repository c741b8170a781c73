"""The machine a run was made on, and how busy others kept it meanwhile: what a reader needs to judge the timings.

Refuses: to guess. Where the system has no /proc/stat, the others' use is None.
"""

import os
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import monotonic

PACKAGES = ("apportion", "mmh3", "siphash24", "xxhash")


def described() -> dict[str, str]:
    """Return the Python, the CPUs and our packages of this run, in words; peers name their own."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.platform(terse=True),
        "cpu": _cpu_model(),
        "cpus": f"{os.cpu_count()} ({usable} usable)",
        **{package: _version(package) for package in PACKAGES},
    }


def watch_others() -> Callable[[], float | None]:
    """Return a function that says how many CPUs other processes kept busy since now, on average."""
    busy_at_start, own_at_start, start = _busy_seconds(), _own_seconds(), monotonic()

    def others_cpus() -> float | None:
        busy = _busy_seconds()
        if busy is None or busy_at_start is None:
            return None
        return max(0.0, busy - busy_at_start - (_own_seconds() - own_at_start)) / (monotonic() - start)

    return others_cpus


def _cpu_model() -> str:
    """Return the processor's name, where the system has /proc/cpuinfo and it says one; else the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _busy_seconds() -> float | None:
    """Return user, nice, system, interrupts and stolen time of all CPUs; columns 4 and 5 are idle and waiting."""
    try:
        first_line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return None
    ticks = [int(column) for column in first_line.split()[1:9]]
    return (sum(ticks) - sum(ticks[3:5])) / os.sysconf("SC_CLK_TCK")
