"""Fences: while a world runs, clocks and random bytes are the world's, and calls that would leave it are refused.

Promises: other threads of the program (a test runner's watchdog, say) see the machine as it is. Everything is put
back at the end, also after an error. `random`, `secrets`, `uuid4` and `os.urandom` give seeded values.
Refuses: to claim a complete fence. Names imported before (`from time import time`) are not fenced. The clock of
`datetime`, the randomness of extension modules, and the order of sets of `str` are not fenced either.
"""

import _posixsubprocess
import _thread
import os
import random
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import process, synchronize
from typing import Any

from apportion.sim.world.process import Senses
from apportion.sim.world.refusal import refusing
from apportion.sim.world.waits import waits

Fence = tuple[Any, str, Callable[..., Any]]


@contextmanager
def fenced(fences: Sequence[Fence], *, seed: str) -> Iterator[None]:
    """Put up the fences for the calling thread, and take them down at the end."""
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in fences]
    state = random.getstate()
    here = threading.get_ident()
    for (owner, name, replacement), (_, _, original) in zip(fences, originals, strict=True):
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


def fences_of(source: Senses) -> list[Fence]:
    """Return the fences: an owner, one of its names, and the replacement while a world runs."""

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
        (random, "_urandom", source.random_bytes),  # the source of SystemRandom, and so of `secrets`
        (random.Random, "seed", lambda self, a=None, version=2: seed(self, _said(a, source), version)),
        (random, "seed", lambda a=None, version=2: seed(random._inst, _said(a, source), version)),
        (socket, "gethostname", source.host),
        (uuid, "uuid1", refusing("uuid.uuid1", "uuid.uuid4")),
        (time, "sleep", refusing("time.sleep", "await asyncio.sleep(seconds)")),
        *_of_other_processes(),
        *_of_the_network(),
        *waits(),
    ]


def _of_other_processes() -> Iterator[Fence]:
    spawn, world = "World.spawn, which starts a process of this world", "World.kill, World.pause and World.terminate"
    yield threading.Thread, "start", refusing("a thread", "asyncio tasks")
    yield _thread, "start_new_thread", refusing("a thread", "asyncio tasks")
    yield subprocess.Popen, "__init__", refusing("a subprocess", spawn)
    yield _posixsubprocess, "fork_exec", refusing("a subprocess", spawn)
    yield process.BaseProcess, "start", refusing("a process of multiprocessing", spawn)
    yield synchronize.SemLock, "__init__", refusing("a lock of multiprocessing", "asyncio.Lock, or the store")
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "execv", "execve", "_exit", "abort"):
        yield os, name, refusing(f"os.{name}", spawn)
    for name in ("kill", "killpg"):
        yield os, name, refusing(f"os.{name}", world)


def _of_the_network() -> Iterator[Fence]:
    inside = "World.send and World.receive, or World.store"
    yield socket.socket, "__init__", refusing("a socket", inside)
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo"):
        yield socket, name, refusing(f"socket.{name}", inside)


def _at_wall(convert: Callable[[float], object], source: Senses) -> Callable[..., object]:
    return lambda seconds=None: convert(source.wall() if seconds is None else seconds)


def _said(seed: Any, source: Senses) -> Any:  # noqa: ANN401 - whatever `random.seed` takes
    return source.random_bytes(32) if seed is None else seed
