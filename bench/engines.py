"""The engines that figures of stores are measured on: those of the conformance suite, started for one figure.

Promises: an engine that is not installed is a row "not measured", with the reason.
A "plain postgres" has its files on the disk, the clock of the machine, and the buffers that a user gives it. A
"logical postgres" can replicate rows too.
"""

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from itertools import chain

from apportion.sim.conformance.rig import Rig
from bench.row import Row, not_measured

NAMES = ("sqlite", "postgres", "etcd")
_PLAIN = ("shared_buffers = 256MB", "max_wal_size = 4GB", "max_connections = 300")
_SET_UP: dict[str, dict[str, object]] = {
    "sqlite": {"own_disk": False},  # the disk that a user has, and none that is an image on it
    "plain postgres": {"is_plain": True, "settings": _PLAIN},
    "logical postgres": {
        "is_plain": True,
        "settings": (*_PLAIN, "wal_level = logical", "max_slot_wal_keep_size = 8GB"),
    },
}


def rows_of(measure: Callable[[Rig], Awaitable[list[Row]]], *names: str, what: str) -> list[Row]:
    """Measure on each engine in turn; return all rows."""
    return list(chain.from_iterable(asyncio.run(_rows(measure, name, what)) for name in names))


async def _rows(measure: Callable[[Rig], Awaitable[list[Row]]], name: str, what: str) -> list[Row]:
    try:
        kind = name.rsplit(maxsplit=1)[-1]
        rig: Rig = import_module(f"tests.stores.rigs.{kind}").RIG(**_SET_UP.get(name, {}))
    except (ImportError, FileNotFoundError) as absent:
        return [not_measured(f"{what}, {name}", str(absent))]
    try:
        return await measure(rig)
    finally:
        await rig.close()
