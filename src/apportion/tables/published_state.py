"""Published state: a name in a store as its publisher knows it, from a scan or from a commit of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from apportion.tables.deltas import Routing
from apportion.tables.layout import Head, TableKeys, VersionLink


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedState:
    """The head of a name, its value, and the revision that wrote each key.

    `number` is the number of the last version. If the head or its chunks are damaged, `head` is None. Then `number` is
    the larger of the store's revision and the highest version in the keys. A version has no number above the store's
    revision, unless a caller asked for one. So no lost version had a number above `number`. `saved` is the value of a
    head that is damaged only in its counts of chunks. All chunks exist then, and the epoch confirms the value.
    """

    incarnation: int
    head: Head | None
    value: Routing | None
    revisions: Mapping[str, int]
    number: int
    is_damaged: bool = False
    saved: Routing | None = None

    @property
    def said(self) -> str:
        """The version in words."""
        return "none: nothing was published" if self.head is None else f"{self.head.epoch}, version {self.head.version}"

    def anew(self) -> Self:
        """Return the state marked as damaged: the next version is whole, and has an unused number."""
        number = max([self.number, *self.revisions.values()])
        return replace(self, head=None, value=None, number=number, is_damaged=True)

    def is_damaged_since(self, before: Self) -> bool:
        """Whether a commit after `before` failed because of damaged keys, and not because of another publisher."""
        if self.is_damaged:
            return True
        ours = {} if before.head is None or before.head != self.head else before.revisions
        return any(self.revisions.get(key) != revision for key, revision in ours.items())

    def still_at(
        self, head: Head, keys: TableKeys, incarnation: int, revisions: Mapping[str, int]
    ) -> tuple[VersionLink, Routing] | None:
        """Return the value and its link if a later head goes on from it, so that nobody has to read its chunks again.

        `incarnation` and `revisions` are those of the scan that found the head. None if the head names other chunks,
        after any change of a chunk, and in another life of the store.
        """
        links = () if self.head is None else self.head.links
        if self.value is None or not links or head.links[: len(links)] != links or self.incarnation != incarnation:
            return None
        needed = {key for link in links for key in keys.parts(link)}
        is_same = all(revisions.get(key) == self.revisions[key] for key in needed)
        return (links[-1], self.value) if is_same else None
