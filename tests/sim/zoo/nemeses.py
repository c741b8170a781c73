"""The zoo's house of nemeses: bugs in the shipped files of groups that one kind of fault finds, and no other does."""

from dataclasses import replace

from tests.sim.zoo.cage import Bug

_ON_GROUPS = (
    Bug(
        "a refusal of the store ends a member",
        "groups/driver.py",
        "            return not self.statistics.sessions\n",
        "            return True\n",
    ),
    Bug(
        "a move whose commit was lost is waited for without end",
        "groups/life/commits.py",
        "        self._inbox.hear(CommitAnswered(batch=commit.batch, revision=revision, is_refused=is_refused))",
        "        if revision is not None or is_refused:\n"
        "            self._inbox.hear(CommitAnswered(batch=commit.batch, revision=revision, is_refused=is_refused))",
    ),
    Bug(
        "a member that its caller gave up keeps its session",
        "groups/life/life.py",
        "            await to_its_end(self._end(tasks))\n",
        "            if not asyncio.current_task().cancelling():\n                await self._end(tasks)\n",
    ),
)

_ON_DAMAGE = (
    Bug(
        "a damaged record counts as one that nobody wrote",
        "groups/view/intake.py",
        "            ownership = OwnershipRecord(epoch=good.epoch)\n"
        "            self._note(key, revision, error, touched, is_deleted=item is None, good=good)\n",
        "            ownership = OwnershipRecord(epoch=good.epoch * (error.problem == ''))\n",
    ),
)

BUGS = (
    *(replace(bug, scenario="group") for bug in _ON_GROUPS),
    *(replace(bug, scenario="damage") for bug in _ON_DAMAGE),
)
