"""Process: runs the child of one shard, and waits for its answer.

The child leads a session of its own, so Ctrl-C in a terminal reaches the parent alone. The parent holds the other end
of the child's standard input, so the child ends with the parent, however the parent ends.
"""

import asyncio
import sys

from apportion.errors import InvalidInput
from apportion.shards.migration.child import Answer, ShardJob, answer_in


async def answer_of(job: ShardJob) -> Answer:
    """Return the answer to a job. A caller that is cancelled ends the child."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "apportion.shards.migration.child"), stdin=pipe, stdout=pipe, start_new_session=True
    )
    if child.stdin is None or child.stdout is None:
        return Answer(error="no pipe")
    try:
        child.stdin.write(job.encode())
        await child.stdin.drain()
        data = await child.stdout.read()
        await child.wait()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
        child.stdin.close()
    return answer_in(data)


async def looked(job: ShardJob) -> Answer:
    """Return the answer of a child that only looks. `InvalidInput` for anything that would stop a migration."""
    answer = await answer_of(job)
    if answer.refused is not None:
        raise _refused(*answer.refused)
    if answer.error:
        hint = "Nothing was changed. Run it by hand, with SHARD_URL in the environment: alembic current"
        raise InvalidInput(f"answer of Alembic for shard {job.meta.shard}", answer.error, "its revision", hint)
    return answer


def _refused(problem: str, field: str, expected: str, hint: str) -> InvalidInput:
    """Return the error that a child raised. Its message is kept as it was."""
    error = InvalidInput(field, None, expected, hint)
    error.problem = problem
    return error
