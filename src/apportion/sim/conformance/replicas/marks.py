"""Cases of `seal`, `purge`, `digest` and `list`: marks measure puts and copies, and only marks let an entry go."""

from apportion.shards.replicas.nodes.api import (
    EntryPurged,
    EntryStored,
    EntrySuperseded,
    PartDigest,
    PurgeKind,
    SlotSealed,
)
from apportion.shards.replicas.nodes.rules import EXPIRY_SLACK_MS
from apportion.shards.replicas.slot_space import LEAVES, SlotPart
from apportion.shards.replicas.version import EntryVersion, last_of
from apportion.sim.conformance.expect import holds, same
from apportion.sim.conformance.replicas.case import node_case
from apportion.sim.conformance.replicas.stage import FIRST, MAP, NodeStage, entry, slot

_LATE = 10 * EXPIRY_SLACK_MS


@node_case
async def a_put_at_or_below_a_seal_changes_nothing(stage: NodeStage) -> None:
    """The answer names a version above which the put can be stored."""
    await stage.node.seal([slot("k")], at_ms=50, number=FIRST)
    same(SlotSealed(last_of(50)), await stage.put("k", 50), "the answer to a put at the seal")
    same(None, (await stage.state("k")).entry, "the entry after it")
    same(EntryStored(), await stage.put("k", 51), "the answer to a put above the seal")


@node_case
async def a_put_that_changes_nothing_is_not_refused_by_a_seal(stage: NodeStage) -> None:
    """A repeated or superseded put is answered as without a seal."""
    await stage.put("k", 5)
    await stage.node.seal([slot("k")], at_ms=50, number=FIRST)
    same(EntryStored(), await stage.put("k", 5), "the answer to the same put")
    same(EntrySuperseded(EntryVersion(milliseconds=5, writer=1)), await stage.put("k", 4), "that to an earlier one")


@node_case
async def a_copy_passes_a_seal_and_stops_at_a_clean_mark(stage: NodeStage) -> None:
    """A get can complete under a seal; a late copy changes nothing behind the clean mark."""
    await stage.node.seal([slot("k")], at_ms=50, number=FIRST)
    same(EntryStored(), await stage.copy("k", 40), "the answer to a copy below the seal")
    await stage.node.seal([slot("k")], at_ms=50, number=FIRST, clean=True)
    same(EntryPurged(50), await stage.copy("k", 45, b"off"), "the answer to a copy below the clean mark")
    same(entry("k", 40), (await stage.state("k")).entry, "the entry after it")
    same(EntryStored(), await stage.copy("k", 51), "the answer to a copy above the clean mark")


@node_case
async def a_mark_never_goes_down(stage: NodeStage) -> None:
    """A seal or clean mark at an earlier time changes nothing."""
    where = SlotPart(slot("k"))
    await stage.node.seal([where.slot], at_ms=50, number=FIRST)
    await stage.node.seal([where.slot], at_ms=40, number=FIRST, clean=True)
    await stage.node.seal([where.slot], at_ms=30, number=FIRST, clean=True)
    await stage.node.seal([where.slot], at_ms=20, number=FIRST)
    digests = await stage.node.digest([where], at_most_ms=99, number=FIRST)
    same((PartDigest(count=0, mark=0, seal_ms=50, clean_ms=40),), digests, "the marks")
    same(40, (await stage.state("k")).clean_ms, "the clean mark of a read")


@node_case
async def a_seal_is_that_of_its_slots_alone(stage: NodeStage) -> None:
    """Other slots take puts of any version."""
    other = next(each for each in map(str, range(99)) if slot(each) != slot("k"))
    await stage.node.seal([slot("k")], at_ms=50, number=FIRST)
    same(EntryStored(), await stage.put(other, 5), "the answer to a put in another slot")


@node_case
async def a_purge_behind_the_clean_mark_takes_deletions_and_old_expired_entries(stage: NodeStage) -> None:
    """Values without expiry, entries that expire later, and deletions above the mark stay."""
    keys = [each for each in map(str, range(99)) if slot(each) == 1][:5]
    sent = [
        entry(keys[0], 5, None),
        entry(keys[1], _LATE + 1, None),
        entry(keys[2], 5, expires_ms=_LATE - EXPIRY_SLACK_MS),
        entry(keys[3], 5, expires_ms=_LATE - EXPIRY_SLACK_MS + 1),
        entry(keys[4], 5),
    ]
    await stage.node.apply(sent, number=FIRST)
    await stage.node.purge([1], kind=PurgeKind.BEHIND_CLEAN, number=FIRST)
    same(5, await _count(stage, 1), "the entries before the clean mark")
    await stage.node.seal([1], at_ms=_LATE, number=FIRST, clean=True)
    await stage.node.purge([1], kind=PurgeKind.BEHIND_CLEAN, number=FIRST)
    left = [each for each in keys if (await stage.state(each)).entry is not None]
    same([keys[1], keys[3], keys[4]], left, "the keys after the purge")


@node_case
async def an_open_slot_is_emptied_once_under_a_number(stage: NodeStage) -> None:
    """A driver that resumes finds the slot open, with the entries that came since. The clean mark is gone."""
    await stage.put("k", 5)
    await stage.node.seal([slot("k")], at_ms=50, number=FIRST, clean=True)
    await stage.node.purge([slot("k")], kind=PurgeKind.OPEN, number=FIRST)
    same((None, 0), ((await stage.state("k")).entry, (await stage.state("k")).clean_ms), "the opened slot")
    same(SlotSealed(last_of(50)), await stage.put("k", 5), "the answer to a put below the seal, which stays")
    await stage.put("k", 60)
    await stage.node.purge([slot("k")], kind=PurgeKind.OPEN, number=FIRST)
    same(entry("k", 60), (await stage.state("k")).entry, "the entry after a second opening")


@node_case
async def a_slot_that_was_left_has_no_entries_and_no_marks(stage: NodeStage) -> None:
    """Clean-up after a move leaves nothing."""
    await stage.put("k", 5)
    await stage.node.seal([slot("k")], at_ms=50, number=FIRST, clean=True)
    await stage.node.purge([slot("k")], kind=PurgeKind.LEFT, number=FIRST)
    digests = await stage.node.digest([SlotPart(slot("k"))], at_most_ms=99, number=FIRST)
    same((PartDigest(count=0, mark=0, seal_ms=0, clean_ms=0),), digests, "the digest")


@node_case
async def a_digest_is_count_and_exclusive_or_of_the_marks_up_to_a_time(stage: NodeStage) -> None:
    """The digest of a slot is that of its leaves together."""
    sent = [entry(f"{number}", number + 1) for number in range(64)]
    await stage.node.apply(sent, number=FIRST)
    for number in range(4):
        inside = [each for each in sent if MAP.space.slot_of(each.key) == number and each.version.milliseconds <= 40]
        mark = 0
        for each in inside:
            mark ^= each.mark
        parts = [SlotPart(number), *(SlotPart(number, leaf) for leaf in range(LEAVES))]
        whole, *leaves = await _digests(stage, parts, 40)
        same((len(inside), mark), (whole.count, whole.mark), f"the digest of slot {number}")
        same(whole.count, sum(each.count for each in leaves), f"the sum of the leaves of slot {number}")


@node_case
async def equal_entries_have_equal_digests_and_another_version_another_one(stage: NodeStage) -> None:
    """The order of writes leaves no trace in a digest."""
    where = [SlotPart(slot("k"))]
    await stage.put("k", 4)
    await stage.put("k", 5)
    (first,) = await _digests(stage, where, 99)
    await stage.put("k", 6)
    (second,) = await _digests(stage, where, 99)
    holds(first.mark != second.mark, "another version has another mark")
    same(entry("k", 5).mark, first.mark, "the mark of one entry")


@node_case
async def a_list_gives_every_entry_of_a_part_once_in_pages(stage: NodeStage) -> None:
    """The next page begins after the last key; an empty page is the end. Deletions are listed."""
    sent = [entry(f"{number}", 5, None if number % 7 == 0 else b"on") for number in range(1_500)]
    await stage.node.apply(sent, number=FIRST)
    found, after = [], None
    while page := await stage.node.list(SlotPart(2), after=after, number=FIRST):
        holds(isinstance(page, tuple) and len(page) <= 256, "a page has at most 256 entries")
        found += [*page] if isinstance(page, tuple) else []
        after = found[-1].key
    inside = [each for each in sent if MAP.space.slot_of(each.key) == 2]
    place = lambda each: (MAP.space.position(each.key), each.key)  # noqa: E731 - used twice, here
    same(sorted(inside, key=place), found, "the entries of a slot")


@node_case
async def a_list_of_a_leaf_has_its_entries_alone(stage: NodeStage) -> None:
    """Leaves part a slot."""
    sent = [entry(f"{number}", 5) for number in range(300)]
    await stage.node.apply(sent, number=FIRST)
    where = MAP.space.part_of(b"7")
    page = await stage.node.list(where, after=None, number=FIRST)
    inside = {each.key for each in sent if MAP.space.part_of(each.key) == where}
    same(inside, {each.key for each in page} if isinstance(page, tuple) else page, "the keys of a leaf")


async def _count(stage: NodeStage, number: int) -> int:
    (found,) = await _digests(stage, [SlotPart(number)], 2 * _LATE)
    return found.count


async def _digests(stage: NodeStage, parts: "list[SlotPart]", at_most_ms: int) -> tuple[PartDigest, ...]:
    found = await stage.node.digest(parts, at_most_ms=at_most_ms, number=FIRST)
    holds(isinstance(found, tuple), "a digest under the node's own number is answered")
    return found if isinstance(found, tuple) else ()
