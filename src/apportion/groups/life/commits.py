"""Commits: sends the commits of one life in tasks of their own, and passes on their answers.

Promises: a commit that fails is reported to the machine that asked for it. Any other error of the task that sends a
commit ends the session.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from apportion.errors import ApportionError, InvalidInput
from apportion.groups.controller.controller import Write
from apportion.groups.life.parts import MemberParts
from apportion.groups.member import Seen
from apportion.groups.unanswered_commits import Commit, CommitAnswered
from apportion.stores.api import Committed, Outcome, Refused, Unknown


class Commits:
    """The commits under way in one life; `step` takes the records that a commit of the controller changed."""

    def __init__(self, parts: MemberParts, step: Callable[[Seen], None]) -> None:
        self._store, self._clock, self._view = parts.store, parts.clock, parts.view
        self._inbox, self._effects, self._controller = parts.inbox, parts.effects, parts.controller
        self._step = step
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task of this life that nobody awaits."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def cancel(self, others: "Iterable[asyncio.Future[None]]") -> None:
        """Cancel all tasks and some others; return when all have ended."""
        tasks = [*others, *self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def commit(self, commit: Commit) -> None:
        """Send the moves of the member, and let it hear the answer."""
        outcome = await self._committed(commit)
        revision = outcome.revision if isinstance(outcome, Committed) else None
        if revision is not None:
            self._effects.moved(commit.moves, self._clock.elapsed())
        is_refused = isinstance(outcome, Refused)
        self._inbox.hear(CommitAnswered(batch=commit.batch, revision=revision, is_refused=is_refused))

    async def write(self, write: Write) -> None:
        """Send the write of the controller, and let it hear the answer."""
        outcome = await self._committed(write)
        now = self._clock.elapsed()
        if isinstance(outcome, Committed):
            self._step(Seen(touched=self._view.wrote([write.put], outcome.revision, now)))
        self._controller.answered(isinstance(outcome, Committed), now)
        self._inbox.hear(None)

    async def _committed(self, commit: Commit | Write) -> Outcome:
        puts = commit.puts if isinstance(commit, Commit) else (commit.put,)
        try:
            return await self._store.commit(when=commit.when, puts=puts)
        except InvalidInput as error:  # too large for this store: halves of the commit may fit
            self._effects.asks_again(error)
            return Refused(revision=0)
        except ApportionError as error:
            return Unknown(reason=error.problem)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._inbox.hear(error)
