"""Child: a process that brings one shard to a revision, or tells which revisions are due.

It reads a job, one line of JSON, from its standard input, and writes an answer, one line of JSON, to its standard
output. Output of the user's scripts goes to standard error. The child ends at once when its parent does.

Promises: no other migration changes this shard meanwhile, because the child holds the lock of its tables until all
triggers are there again. A child of an older term changes nothing: the shard has seen a newer token.
"""

import json
import os
import signal
import sys
import threading
import traceback
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from apportion.errors import ApportionError, InvalidInput
from apportion.model.epoch import FencingToken
from apportion.shards.meta import ShardMeta
from apportion.shards.place import DatabasePlace
from apportion.shards.takeover.takeover import within


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardJob:
    """The work of a child. Without a token, it only looks."""

    meta: ShardMeta
    address: str
    config: str
    to: str
    token: FencingToken | None = None

    def encode(self) -> bytes:
        """Return the job as a line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "ShardJob":
        """Return the job of a line."""
        form = json.loads(line)
        token = None if form["token"] is None else FencingToken(**form["token"])
        return cls(**{**form, "meta": ShardMeta(**form["meta"]), "token": token})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a child. `refused` has the parts of an `InvalidInput`: problem, field, expectation and hint."""

    target: str = ""
    revision: str = ""
    due: tuple[str, ...] = ()
    version_table: str = ""
    error: str = ""
    refused: tuple[str, str, str, str] | None = None


def answered(job: ShardJob) -> Answer:
    """Do a job."""
    from apportion.shards.migration.environment import ShardEnvironment  # noqa: PLC0415 - imports the user's code

    place = DatabasePlace(job.address)
    environment = ShardEnvironment(Path(job.config), place, job.meta)
    target = environment.target(job.to)
    if job.token is None:
        revision, due = environment.due(target)
        return Answer(target=target, revision=revision, due=due, version_table=environment.version_table)
    with place.tables_locked(job.meta.shard):
        with place.engine() as engine:
            within(engine, job.meta.shard, partial(place.guard.check, token=job.token))
        failure = UserFailure()
        with failure:
            environment.upgrade(target)
        if environment.tables:
            environment.mend()
        revision = environment.revision()
    error = failure.text
    if not error and revision != target:
        error = f"the revision is {revision or 'absent'} after the run of env.py"
    return Answer(target=target, revision=revision, version_table=environment.version_table, error=error)


class UserFailure:
    """Takes any error of a block, also of the user's code there, and keeps it as one line."""

    def __init__(self) -> None:
        self.text: str = ""
        self.refused: tuple[str, str, str, str] | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, place: object) -> bool:
        if error is None:
            return False
        if not isinstance(error, ApportionError):
            traceback.print_exception(error)
        if isinstance(error, InvalidInput):
            self.refused = (error.problem, error.field, error.expected, error.hint)
        lines = [line.strip() for line in f"{error}".splitlines() if line.strip()]
        self.text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        return True


def main() -> None:
    """Read a job, do it, and write the answer."""
    job = ShardJob.decode(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ |= {"SHARD_ID": job.meta.shard, "SHARD_URL": _url(job)}
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    answer, failure = Answer(), UserFailure()
    with failure:
        answer = answered(job)
    if failure.text:
        answer = Answer(error=failure.text, refused=failure.refused)
    sys.stdout.flush()
    os.write(output, json.dumps(asdict(answer)).encode())


def answer_in(data: bytes) -> Answer:
    """Return the answer of a child that has ended."""
    if not data:
        return Answer(error="the process of Alembic ended without an answer")
    form: dict[str, Any] = json.loads(data)
    return Answer(**{**form, "due": tuple(form["due"])})


def _url(job: ShardJob) -> str:
    return DatabasePlace(job.address).url.render_as_string(hide_password=False)


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
