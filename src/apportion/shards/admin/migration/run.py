"""Run of a migration: brings one shard after another to a revision, as the elected mover of the set.

The control store keeps the state of each shard. The commits that begin a move and a migration compare the records of
each other, so one of them loses.

Promises: the record of a newer run is never overwritten. After a shard that fails, no other begins; those under way go
on to their ends.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from apportion.errors import Conflict, StoreUnavailable, UnknownOption
from apportion.errors.brief import brief
from apportion.model.epoch import FencingToken
from apportion.shards.admin.carrier import Carrier, check_records
from apportion.shards.admin.facts import moves_of
from apportion.shards.migration.child import Answer, ShardJob
from apportion.shards.migration.process import answer_of
from apportion.shards.migration.record import MigrationRecord, ShardMigration
from apportion.shards.mover.book import KnownMoves
from apportion.shards.router import FollowedSet
from apportion.stores import api

MigrationObserved = Callable[[ShardMigration], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationWish:
    """The checked wishes of a caller: the file of Alembic, the revision, the canary, and the shards at once."""

    config: Path
    to: str
    canary: str | None
    parallel: int

    def ordered(self, shards: Collection[str]) -> list[str]:
        """Return the shards in the order in which they are migrated."""
        if self.canary is None:
            return sorted(shards)
        if self.canary not in shards:
            raise UnknownOption("canary", self.canary, shards)
        return [self.canary, *sorted({*shards} - {self.canary})]


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class SetMigration:
    """A migration: its revision, and the state of each shard, in the order in which they are migrated."""

    target: str
    shards: tuple[ShardMigration, ...]

    @property
    def is_whole(self) -> bool:
        """Whether each shard has come to the revision."""
        return all(each.state == "done" for each in self.shards)


class MigrationRun:
    """One run of a migration, by the elected mover of the set."""

    def __init__(self, carrier: Carrier, wish: MigrationWish, first: Answer, told: MigrationObserved) -> None:
        self._mover, self._token, self._followed = carrier.mover, carrier.token, carrier.followed
        self._book, self._store, self._keys = carrier.mover.book, carrier.followed.store, carrier.followed.keys
        self._wish, self._told = wish, told
        self._order = wish.ordered(self._followed.shards)
        shards = {shard: ShardMigration(id=shard) for shard in self._order}
        self._record = MigrationRecord(target=first.target, shards=shards, version_table=first.version_table)
        self._revision = 0  # that of our last commit: the record of a newer run is never overwritten
        self._lock, self._has_failed = asyncio.Lock(), False

    async def migrated(self) -> SetMigration:
        """Migrate the canary, then the other shards. Return the states of all."""
        await self._begin()
        due = list(self._order)
        await self._one(due.pop(0))
        lanes = (self._lane(due) for _ in range(self._wish.parallel))
        for failure in await asyncio.gather(*lanes, return_exceptions=True):
            if failure is not None:
                raise failure
        shards = tuple(self._record.shards[shard] for shard in self._order)
        return SetMigration(target=self._record.target, shards=shards)

    async def _begin(self) -> None:
        """Write the record, if no move is under way. From then on, no move begins and no shard joins the set."""
        moves = await idle(self._followed)
        known, same = await self._book.migration()
        if known is not None and not known.is_over:
            seen = {shard: replace(each, state="pending") for shard, each in known.shards.items()}
            shards = {shard: seen.get(shard, ShardMigration(id=shard)) for shard in self._order}
            self._record = replace(self._record, shards=shards)
        await self._write([same, self._book.list_compare(moves)])
        keys = self._keys
        for item in (await self._store.scan(keys.shard(""))).items:
            shard = keys.shard_of(item.key)
            if shard is not None and shard not in self._record.shards:  # it joined just before
                await self._followed.learn(shard)
                self._order.append(shard)
                await self._note(ShardMigration(id=shard))

    async def _lane(self, due: list[str]) -> None:
        """Migrate one shard after another, until one has failed in any lane."""
        is_through = False
        try:
            while due and not self._has_failed:
                await self._one(due.pop(0))
            is_through = True
        finally:
            self._has_failed |= not is_through

    async def _one(self, shard: str) -> None:
        self._mover.check()
        before = self._record.shards[shard].revision
        await self._note(ShardMigration(id=shard, state="running", revision=before))
        token = replace(self._token, resource=self._keys.migration)
        answer = await answer_of(job_of(self._followed, shard, replace(self._wish, to=self._record.target), token))
        if answer.error:
            self._has_failed = True
            revision = answer.revision or before
            await self._note(ShardMigration(id=shard, state="failed", revision=revision, error=answer.error))
        else:
            await self._note(ShardMigration(id=shard, state="done", revision=answer.revision))

    async def _note(self, state: ShardMigration) -> None:
        async with self._lock:
            self._record = self._record.changed(state)
            await self._write([api.Unchanged(key=self._keys.migration, revision=self._revision)])
        self._told(state)

    async def _write(self, when: Sequence[api.Compare]) -> None:
        self._mover.check()
        put = api.Put(key=self._keys.migration, value=self._record.encode())
        outcome = await self._store.commit(when=when, puts=[put])
        if isinstance(outcome, api.Unknown):
            raise StoreUnavailable("the control store", outcome.reason, "Run the same call again to go on.")
        if isinstance(outcome, api.Refused):
            raise Conflict("a move or another migration began meanwhile.", "Run the same call again to go on.")
        self._revision = outcome.revision


async def idle(followed: FollowedSet) -> KnownMoves:
    """Return the records of moves. `Conflict` if a move is not over, or waits for `clean`."""
    moves = await moves_of(followed)
    check_records(moves)
    if moves.kept:
        named = ", ".join(f"{move} ({each.entry.record.state})" for move, each in sorted(moves.kept.items()))
        hint = f"Let them end: apportion shards apply URL {followed.keys.name}, then shards clean --soak 0s"
        raise Conflict(f"moves of set {followed.keys.name} are not over: {named}.", hint)
    return moves


def job_of(followed: FollowedSet, shard: str, wish: MigrationWish, token: FencingToken | None = None) -> ShardJob:
    """Return the job of the process that migrates a shard. Without a token, the process only looks."""
    address = followed.shards[shard].address()
    return ShardJob(meta=followed.meta(shard), address=address, config=f"{wish.config}", to=wish.to, token=token)
