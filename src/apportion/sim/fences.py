"""Fences: while a world runs, clocks and random bytes are the world's, and what would leave it is refused.

Promises: other threads of the program (a test runner's watchdog, say) see the machine as it is; all is put back at the
end, also after an error. `random`, `secrets`, `uuid4` and `os.urandom` give seeded values.
Refuses to pretend: what was imported by name before (`from time import time`), the clock of `datetime`, chance of
extension modules and the order of sets of `str` cannot be fenced.
"""

import os
import random
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from apportion.errors import ApportionError


class LeavesTheWorld(ApportionError):
    """Something that the simulated world cannot see, repeat or disturb."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"{what} would leave the simulated world.", f"Use {instead}.")


class Source(Protocol):
    """What the fences ask a world for."""

    def elapsed(self) -> float:
        """Return the elapsed seconds of the process that asks."""
        ...

    def wall(self) -> float:
        """Return the wall clock of the process that asks, in seconds since 1970."""
        ...

    def random_bytes(self, size: int) -> bytes:
        """Return seeded bytes."""
        ...

    def host(self) -> str:
        """Return the name of the machine that the process which asks is on."""
        ...


@contextmanager
def fenced(source: Source, *, seed: str) -> Iterator[None]:
    """Put up the fences for the calling thread, and take them down at the end."""
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in _fences(source)]
    state = random.getstate()
    here = threading.get_ident()
    for (owner, name, replacement), (_, _, original) in zip(_fences(source), originals, strict=True):
        setattr(owner, name, _for_thread(here, replacement, original))
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)
        for owner, name, original in originals:
            setattr(owner, name, original)


def _for_thread(thread: int, replacement: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    def _choose(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever the fenced function takes and gives
        chosen = replacement if threading.get_ident() == thread else original
        return chosen(*args, **options)

    return _choose


def _fences(source: Source) -> list[tuple[Any, str, Callable[..., Any]]]:
    def _clock_gettime(clock: int) -> float:
        return source.wall() if clock == time.CLOCK_REALTIME else source.elapsed()

    strftime, asctime, seed = time.strftime, time.asctime, random.Random.seed
    elapsed_clocks = ("monotonic", "perf_counter", "process_time", "thread_time")
    return [
        (time, "time", source.wall),
        (time, "time_ns", lambda: int(source.wall() * 1e9)),
        *((time, name, source.elapsed) for name in elapsed_clocks),
        *((time, f"{name}_ns", lambda: int(source.elapsed() * 1e9)) for name in elapsed_clocks),
        *((time, name, _at_wall(getattr(time, name), source)) for name in ("gmtime", "localtime", "ctime")),
        (time, "strftime", lambda text, parts=None: strftime(text, time.localtime() if parts is None else parts)),
        (time, "asctime", lambda parts=None: asctime(time.localtime() if parts is None else parts)),
        (time, "clock_gettime", _clock_gettime),
        (time, "clock_gettime_ns", lambda clock: int(_clock_gettime(clock) * 1e9)),
        (os, "urandom", source.random_bytes),
        (random, "_urandom", source.random_bytes),  # what SystemRandom, and by it `secrets`, asks
        (random.Random, "seed", lambda self, a=None, version=2: seed(self, _said(a, source), version)),
        (random, "seed", lambda a=None, version=2: seed(random._inst, _said(a, source), version)),
        (socket, "gethostname", source.host),
        (uuid, "uuid1", _refusal("uuid.uuid1", "uuid.uuid4")),
        (time, "sleep", _refusal("time.sleep", "await asyncio.sleep(seconds)")),
        (os, "fork", _refusal("os.fork", "World.spawn, which starts a process of this world")),
        (threading.Thread, "start", _refusal("a thread", "asyncio tasks")),
        (subprocess.Popen, "__init__", _refusal("a subprocess", "World.spawn")),
        (socket.socket, "__init__", _refusal("a socket", "World.send and World.receive, or World.store")),
    ]


def _at_wall(convert: Callable[[float], object], source: Source) -> Callable[..., object]:
    return lambda seconds=None: convert(source.wall() if seconds is None else seconds)


def _said(seed: Any, source: Source) -> Any:  # noqa: ANN401 - whatever `random.seed` takes
    return source.random_bytes(32) if seed is None else seed


def _refusal(what: str, instead: str) -> Callable[..., Any]:
    def _refuse(*args: object, **options: object) -> None:  # noqa: ARG001
        raise LeavesTheWorld(what, instead)

    return _refuse
