"""Publisher: writes a table under a name in a store, version after version, for any number of clients that follow it.

The chunks are written first, in commits that leave the old head in place. The last commit writes the remaining chunks
and the new head, and deletes chunks that the new head does not need. Every commit compares the head that the publisher
read, and includes the compares that the caller adds. So two publishers never interleave, and a leader that lost its
term publishes nothing.

Promises: a reader finds a whole version at every moment; a later publisher deletes the chunks of one that died.
Refuses: to overwrite a version that another publisher wrote meanwhile, and to change between tables and assignments.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from uuid import uuid4

from apportion.errors import BadSnapshot, Conflict, InvalidInput, StaleEpoch, StoreUnavailable, StoreWentBack
from apportion.errors.brief import brief
from apportion.model.epoch import Epoch
from apportion.stores import api
from apportion.tables.chunk_commits import CommitRoom, absent, batches, key_bytes, put_bytes, room_of
from apportion.tables.deltas import Routing
from apportion.tables.layout import (
    Head,
    TableKeys,
    Version,
    VersionLink,
    decode_head,
    encode_head,
    follow_up,
    is_of_later_release,
    kind_of,
    recounted,
    resolved,
    routed,
)
from apportion.tables.published_state import PublishedState

_TRIES = 3
_PERHAPS = "The value may be published already or later. Publish it again: the newest value is not published twice."


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The result of a publish: the version, its epoch, and the size of the chunks of that version."""

    version: Version
    epoch: Epoch
    size_bytes: int
    is_snapshot: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extra:
    """The compares and puts that a caller adds to the commits of a version, and the number that the caller wants."""

    when: Sequence[api.Compare]
    puts: Sequence[api.Put]
    number: int | None

    @property
    def is_asked(self) -> bool:
        """Whether the value is published even if it is the newest already."""
        return bool(self.puts) or self.number is not None

    def numbered(self, known: PublishedState) -> PublishedState:
        """Return a state with the wanted number as its next number; `StaleEpoch` if that number was reached."""
        if self.number is None or self.number == known.number + 1:
            return known
        if self.number <= known.number:
            raise StaleEpoch(f"version {self.number}", known.said)
        return replace(known, head=None, value=None, number=self.number - 1)  # a delta cannot skip numbers


class Publisher:
    """Publishes under one name. It remembers the version that it published, so the next version costs no read.

    Call its methods one after another, on one event loop. After a restore of the store, make a new publisher, as each
    session of a member does. An old publisher remembers the old life of the store. Once another user of the same handle
    has scanned the new life, the old publisher could write old state into it. With `incarnation`, a publisher publishes
    only in that life of the store, and raises `StoreWentBack` in another.
    """

    def __init__(self, store: api.CoordinationStore, name: str, *, incarnation: int | None = None) -> None:
        self._store = store
        self._keys = TableKeys(name)
        self._incarnation = incarnation
        self._known: PublishedState | None = None
        self._followed: PublishedState | None = None  # the state that `newest` read
        self._valued: PublishedState | None = None  # the last state with a value: unchanged chunks are not read again
        self._last = Version(incarnation=0, number=0)  # the newest version that this publisher saw

    async def publish(
        self,
        value: Routing,
        *,
        when: Sequence[api.Compare] = (),
        puts: Sequence[api.Put] = (),
        number: int | None = None,
    ) -> Published:
        """Make `value` the next version, if it is not the newest and every compare of `when` holds.

        The commit that makes the version the newest also writes `puts`; `when` must compare their keys. `number` is the
        number of the new version. It may skip numbers; the version is then published whole. If `puts` or `number` is
        given, the value is published even if it is the newest already.

        `StaleEpoch` when another publisher was first, or has reached `number`. `Conflict` when a compare did not hold.
        In both cases, nothing was published. `InvalidInput` for a table after an assignment, or the reverse.
        `BadSnapshot` for a value above 16 MiB. Calls of the store raise their own errors. If the value may have been
        published, the hint of `StoreUnavailable` says so.
        """
        value, extra = routed(value), _Extra(when=when, puts=puts, number=number)
        unsure, refused_from, attempts = False, None, set[str]()
        tried, self._followed = self._followed, None
        if self._known is not None and self._is_newest(self._known.head, value):
            self._known = None  # the value was the newest, but another publisher may have published since
        for _ in range(_TRIES):
            known = await self._read(unsure=unsure)
            links = () if known.head is None else known.head.links
            ours = [link for link in links if link.nonce in attempts]
            if ours or (refused_from is None and self._is_newest(known.head, value) and not extra.is_asked):
                self._known = known
                return _published(known.incarnation, links, (ours or links)[-1], value)
            if tried is not None and known.head is not None and known.number > tried.number:
                raise self._refusal(tried, known, unsure=unsure)
            if refused_from is not None:
                if not known.is_damaged_since(refused_from):
                    raise self._refusal(refused_from, known, unsure=unsure)
                known = known.anew()
            nonce = uuid4().hex[:12]
            attempts.add(nonce)
            outcome = await self._attempt(extra.numbered(known), value, extra, nonce)
            if isinstance(outcome, api.Committed) and self._known is not None and self._known.head is not None:
                links = self._known.head.links
                return _published(known.incarnation, links, links[-1], value)
            unsure, tried = unsure or isinstance(outcome, api.Unknown), known
            refused_from = known if isinstance(outcome, api.Refused) else None
        raise StoreUnavailable("the store", f"it did not answer {_TRIES} times", _PERHAPS)

    async def newest(self) -> Routing:
        """Return the newest value. The next publish follows exactly this version, or raises `StaleEpoch`.

        `BadSnapshot` when nothing was published, or the newest version is damaged.
        """
        self._known = None
        known = await self._read(unsure=False)
        if known.value is None:
            raise self._unreadable(known)
        self._known = self._followed = known
        return known.value

    async def renew(self) -> Published:
        """Publish the newest version again, whole and with an unused number, to repair a table that went back.

        `BadSnapshot` when that version is damaged; the next publish repairs it. Other errors are those of `publish`.
        """
        self._known = None
        known = await self._read(unsure=False)
        value = known.saved if known.value is None else known.value
        if value is None:
            raise self._unreadable(known)
        self._known = known.anew()
        return await self.publish(value)

    async def is_intact(self) -> bool:
        """Whether the head and the chunks of the newest version are as this publisher wrote them; one scan."""
        known = self._known
        if known is None or known.head is None:
            return True
        found = {item.key: item.revision for item in (await self._store.scan(self._keys.prefix)).items}
        needed = [self._keys.head, *(key for link in known.head.links for key in self._keys.parts(link))]
        return all(key in found and found[key] == known.revisions.get(key) for key in needed)

    async def _read(self, *, unsure: bool) -> PublishedState:
        """Return the remembered state and forget it, or scan the store. The caller sets it again."""
        known, self._known = self._known, None
        if known is not None:
            return known
        try:
            scan = await self._store.scan(self._keys.prefix)
        except StoreUnavailable as error:
            if not unsure:
                raise
            raise StoreUnavailable(error.store, error.reason, _PERHAPS) from error
        if self._incarnation not in (None, scan.incarnation):
            raise StoreWentBack(f"table {self._keys.name}", f"life {self._incarnation}", f"life {scan.incarnation}")
        return self._found(scan)

    def _found(self, scan: api.Scan) -> PublishedState:
        """Return the state that a scan shows. No version is built on a head that is damaged or went back."""
        chunks = {item.key: item.value for item in scan.items}
        revisions = {item.key: item.revision for item in scan.items}
        head, value = self._newest(chunks, scan.incarnation, revisions)
        seen = self._last.number if self._last.incarnation == scan.incarnation else 0
        is_damaged = value is None and self._keys.head in chunks
        number = max([0, *map(self._keys.version_of, chunks)]) if head is None else head.version
        if is_damaged or number < seen:  # other clients may have seen newer versions
            is_damaged, value = True, None
            number = max([scan.revision, *map(self._keys.version_of, chunks)])
        self._last = max(self._last, Version(incarnation=scan.incarnation, number=number if value else seen))
        found = PublishedState(
            incarnation=scan.incarnation,
            head=None if is_damaged else head,
            value=value,
            revisions=revisions,
            number=number,
            is_damaged=is_damaged,
            saved=None if head is None or not is_damaged else self._saved(head, chunks),
        )
        self._valued = self._valued if value is None else found
        return found

    def _saved(self, head: Head, chunks: dict[str, bytes]) -> Routing | None:
        """Return the value of a head with a wrong count of its chunks, None if the chunks give no value."""
        with suppress(InvalidInput):
            return resolved(recounted(head, self._keys, chunks), self._keys, chunks)
        return None

    def _newest(
        self, chunks: dict[str, bytes], incarnation: int, revisions: dict[str, int]
    ) -> tuple[Head | None, Routing | None]:
        """Return the head and its value, each None if damaged; `BadSnapshot` for a head that a later release wrote."""
        if self._keys.head not in chunks:
            return None, None
        head, known = None, self._valued
        try:
            head = decode_head(chunks[self._keys.head])
            at = None if known is None else known.still_at(head, self._keys, incarnation, revisions)
            return head, resolved(head, self._keys, chunks, at=at)
        except InvalidInput:
            if is_of_later_release(chunks[self._keys.head]):
                raise
            return head, None

    def _is_newest(self, head: Head | None, value: Routing) -> bool:
        if head is None:
            return False
        if head.kind != kind_of(value):
            hint = "Publish under another name: the followers of this one expect the other kind."
            raise InvalidInput(f"kind of {self._keys.name}", kind_of(value), f"{head.kind}, as published before", hint)
        return head.epoch == value.epoch

    async def _attempt(self, known: PublishedState, value: Routing, extra: "_Extra", nonce: str) -> api.Outcome:
        """Write the chunks and the head of the next version. A commit that fails has no effect on readers."""
        limits = self._store.capabilities()
        part_bytes = max(1, min(limits.max_value_bytes, limits.max_commit_bytes // 2))
        life = known.incarnation
        number = known.number + 1
        head, chunks = follow_up(
            known.head, known.value, value, incarnation=life, number=number, nonce=nonce, part_bytes=part_bytes
        )
        revision = known.revisions.get(self._keys.head)
        old_head = (
            api.Absent(key=self._keys.head) if not revision else api.Unchanged(key=self._keys.head, revision=revision)
        )
        always: list[api.Compare] = [old_head, *extra.when]
        pointer = api.Put(key=self._keys.head, value=encode_head(head))
        room = room_of(limits, always, pointer).less(map(put_bytes, extra.puts))
        named = zip(self._keys.parts(head.links[-1]), chunks, strict=True)
        *early, last = batches([api.Put(key=key, value=chunk) for key, chunk in named], room)
        revisions = dict(known.revisions)
        for batch in early:
            outcome = await self._store.commit(when=[*always, *absent(batch)], puts=batch)
            if not isinstance(outcome, api.Committed):
                return outcome
            revisions |= {put.key: outcome.revision for put in batch}
        room = room.less(map(put_bytes, last))
        old = self._unneeded(known, head, room)
        needed = [key for link in head.links[:-1] for key in self._keys.parts(link)]
        room = room.less(2 * key_bytes(key) for key in old)
        # Compare as many chunks of the earlier links as fit. If one of them has changed, the commit is refused, and the
        # version is published whole.
        kept = [*old, *needed[: room.takes(map(key_bytes, needed))]]
        when = [*always, *absent(last), *(api.Unchanged(key=key, revision=known.revisions[key]) for key in kept)]
        outcome = await self._store.commit(when=when, puts=[*last, pointer, *extra.puts], deletes=old)
        if isinstance(outcome, api.Committed):
            revisions |= {put.key: outcome.revision for put in (*last, pointer)}
            there = {key: revision for key, revision in revisions.items() if key not in old}
            self._known = PublishedState(incarnation=life, head=head, value=value, revisions=there, number=number)
            self._valued = self._known
            self._last = max(self._last, Version(incarnation=life, number=number))
        return outcome

    def _unneeded(self, known: PublishedState, head: Head, room: CommitRoom) -> list[str]:
        """Return keys that no reader of the new head needs, as many as the commit can delete.

        Keys are deleted only by a commit that replaces the head. So these keys still exist if the head is unchanged.
        """
        needed = {self._keys.head, *(key for link in head.links for key in self._keys.parts(link))}
        old = sorted(known.revisions.keys() - needed)
        return old[: room.takes(2 * key_bytes(key) for key in old)]

    def _unreadable(self, known: PublishedState) -> BadSnapshot:
        found = "damaged" if known.is_damaged else "nothing"
        hint = "Publish the table to repair it. Until then followers keep their present version."
        return BadSnapshot(f"table {self._keys.name}", found, "a version that can be read", hint)

    def _refusal(self, before: PublishedState, now: PublishedState, *, unsure: bool) -> Exception:
        if unsure:
            return StoreUnavailable("the store", "a reply was lost, and then another publisher was first", _PERHAPS)
        if before.revisions.get(self._keys.head) != now.revisions.get(self._keys.head):
            return StaleEpoch(before.said, now.said)
        return Conflict(
            f"table {self._keys.name} was not published: a compare of `when` did not hold.",
            "Nothing was published. Read the compared keys again. If this leader has lost its term, stop publishing.",
        )


def _published(incarnation: int, links: Sequence[VersionLink], link: VersionLink, value: Routing) -> Published:
    return Published(
        version=Version(incarnation=incarnation, number=link.version),
        epoch=value.epoch,
        size_bytes=link.size_bytes,
        is_snapshot=link == links[0],
    )


async def publish(
    store: api.CoordinationStore, name: str, value: Routing, *, when: Sequence[api.Compare] = ()
) -> Published:
    """Publish once. To publish often, keep a `Publisher`."""
    return await Publisher(store, name).publish(value, when=when)
