"""Helix and Kafka themselves, in a Java process: `bench/java`, built with Maven once and kept until its sources change.

Promises: the virtual machine is started once for all cases; `Absent` says why there is none here, and never hides an
error in our own Java.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path

PROJECT = Path(__file__).parent / "java"
BUILD_SECONDS = 600
MAIN = "apportion.oracle.Main"
VERSIONS = {"helix": "helix-core 2.0.1", "kafka": "kafka-clients 4.1.1"}

Json = Mapping[str, object]


class Absent(Exception):
    """There is no Java, no Maven, or no jar to be had."""


class Oracle:
    """A running driver. A case is asked by a JSON object; see `bench/java`."""

    def __init__(self, *options: str) -> None:
        jars = jars_of("pom.xml", goals=("compile",))
        classes = PROJECT / "target" / "classes"
        self._process = subprocess.Popen(
            ["java", *options, "-Dfile.encoding=UTF-8", "-cp", f"{classes}:{jars}/*", MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def ask(self, case: Json) -> dict[str, object]:
        """Return what the driver says: `answer` or `error`, and `median_ns` where `calls` are asked for."""
        if self._process.stdin is None or self._process.stdout is None:
            raise ValueError("no pipes")
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        said: dict[str, object] = json.loads(self._process.stdout.readline())
        return said

    def median_ns(self, case: Json, *, calls: int, warmup: int = 0) -> int:
        """Return the median of so many calls in Java, by its own clock, in nanoseconds."""
        said = self.ask({**case, "calls": calls, "warmup": warmup})
        found = said.get("median_ns")
        if not isinstance(found, int):
            raise TypeError(f"the driver answers {said}")
        return found

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@contextmanager
def oracle() -> Iterator[Oracle]:
    """Run the driver for a while; raise `Absent` where it cannot be."""
    running = Oracle()
    try:
        yield running
    finally:
        running.close()


def jars_of(pom: str, *, goals: tuple[str, ...] = ()) -> Path:
    """Return the folder of the jars that a project file names, fetched and built if that was not done yet.

    Raises `Absent`; `RuntimeError` with what the compiler says, where it refuses our sources.
    """
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing:
        raise Absent(f"no {' and no '.join(missing)}: apt-get install openjdk-17-jdk-headless maven")
    target = PROJECT / "target"
    target.mkdir(exist_ok=True)
    jars, stamp = target / f"{Path(pom).stem}-jars", target / f"{Path(pom).stem}.stamp"
    with (target / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not stamp.exists() or stamp.read_text() != _digest(pom):
            _build(pom, goals, jars)
            stamp.write_text(_digest(pom))
    return jars


def _build(pom: str, goals: tuple[str, ...], jars: Path) -> None:
    shutil.rmtree(jars, ignore_errors=True)
    command = ["mvn", "-q", "-B", "-f", pom, *goals, "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
    try:
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
    except subprocess.TimeoutExpired as slow:
        raise Absent(f"Maven has not fetched the jars of {pom} in {BUILD_SECONDS} s") from slow
    if "COMPILATION ERROR" in done.stdout:
        raise RuntimeError(done.stdout)
    if done.returncode:
        said = [line for line in done.stdout.splitlines() if "ERROR" in line] or ["nothing"]
        raise Absent(f"Maven could not fetch the jars of {pom}: {said[0]}")


def _digest(pom: str) -> str:
    files = [PROJECT / pom, *sorted((PROJECT / "src").rglob("*.java"))]
    return sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
