"""Ten million identifiers of rows from eight processes: equal ones, their order, their slots, and the time of each.

Each process makes its identifiers for 64 slots in turn. It reads the slot of each back, and compares those of one slot
with the one before. The bytes of all identifiers then meet in 16 parts, by their last four bits.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, time_ns

from apportion import shards
from bench.goal import at_most
from bench.row import Row

PROCESSES, EACH = 8, 1_250_000
NONE = at_most(0, "identifiers")
_SLOTS = tuple(range(0, 16_384, 256))
_PARTS, _BYTES = 16, 16


def rows(each: int = EACH) -> list[Row]:
    """Make the identifiers, `each` in each process, and count those with a fault."""
    with TemporaryDirectory() as folder, ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        found = [*pool.map(partial(_made, folder, each), range(PROCESSES))]
        equal = sum(pool.map(partial(_equal, folder), range(_PARTS)))
    faults = {
        "equal": equal,
        "out of order": sum(each[0] for each in found),
        "of another slot": sum(e[1] for e in found),
    }
    name = f"{PROCESSES * each:,} identifiers of rows from {PROCESSES} processes".replace(",", " ")
    return [
        *(
            Row(name=f"{name}: {fault}", value=count, shown=f"{count}", goal=str(NONE), met=NONE.is_met(count))
            for fault, count in faults.items()
        ),
        _time_row(),
    ]


def _made(folder: str, each: int, process: int) -> tuple[int, int]:
    """Write identifiers. Return the numbers of those out of order, and of those with another slot than asked for."""
    parts = [bytearray() for _ in range(_PARTS)]
    last = dict.fromkeys(_SLOTS, b"")
    late = astray = 0
    began = time_ns() // 1_000_000
    for number in range(each):
        slot = _SLOTS[number % len(_SLOTS)]
        made = shards.new_id(slot)
        packed = made.bytes
        late += packed <= last[slot]
        astray += shards.slot_of(made) != slot
        last[slot] = packed
        parts[packed[-1] % _PARTS] += packed
    late += sum(not _is_within(part, began, time_ns() // 1_000_000 + 1) for part in parts)
    for place, part in enumerate(parts):
        _file(folder, process, place).write_bytes(part)
    return late, astray


def _is_within(part: Sequence[int], first: int, last: int) -> bool:
    """Whether the smallest and the largest identifier begin with a time of the run."""
    found = _split(bytes(part))
    return not found or (first <= _milliseconds(min(found)) and _milliseconds(max(found)) <= last)


def _equal(folder: str, place: int) -> int:
    """Return the number of identifiers of one part that another one equals."""
    found = [each for process in range(PROCESSES) for each in _split(_file(folder, process, place).read_bytes())]
    return len(found) - len({*found})


def _split(part: bytes) -> list[bytes]:
    return [part[start : start + _BYTES] for start in range(0, len(part), _BYTES)]


def _milliseconds(identifier: bytes) -> int:
    return int.from_bytes(identifier[:6])


def _file(folder: str, process: int, place: int) -> Path:
    return Path(folder) / f"{process}-{place}"


def _time_row() -> Row:
    times = []
    for _ in range(5):
        began = perf_counter()
        for _ in range(20_000):
            shards.new_id(4094)
        times.append((perf_counter() - began) / 20_000 * 1e6)
    return Row(name="new_id", value=min(times), shown=f"{min(times):.2f} us")
