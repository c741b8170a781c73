"""Cases of `fence` and `identity`: a lower table number changes nothing, and a node belongs to one map of a name."""

from dataclasses import replace

from apportion.errors import InvalidInput
from apportion.shards.replicas.nodes.api import EntryStored, PurgeKind, StaleNumber
from apportion.shards.replicas.slot_space import SlotPart
from apportion.sim.conformance.expect import holds, raises, same
from apportion.sim.conformance.replicas.case import node_case
from apportion.sim.conformance.replicas.stage import FIRST, MAP, TABLE, NodeStage, entry, slot

_HIGHER = FIRST + 2


@node_case
async def a_lower_number_changes_nothing_after_a_fence(stage: NodeStage) -> None:
    """Puts and copies of a caller with an older table are answered with the number, each of them."""
    await stage.node.fence(_HIGHER, b"later")
    stale = StaleNumber(_HIGHER)
    same((stale, stale), await stage.node.apply([entry("a", 5), entry("b", 5)], number=FIRST), "the answers to puts")
    same(stale, await stage.copy("a", 5), "the answer to a copy")
    same(None, (await stage.state("a", number=_HIGHER)).entry, "the entry after them")


@node_case
async def a_lower_number_reads_nothing_after_a_fence(stage: NodeStage) -> None:
    """A reader of an older table must not take an answer for one of the new list."""
    await stage.put("a", 5)
    await stage.node.fence(_HIGHER, b"later")
    stale, where = StaleNumber(_HIGHER), SlotPart(slot("a"))
    same(stale, await stage.read("a"), "the answer to a read")
    same(stale, await stage.node.digest([where], at_most_ms=9, number=FIRST), "the answer to a digest")
    same(stale, await stage.node.list(where, after=None, number=FIRST), "the answer to a list")


@node_case
async def a_lower_number_seals_and_purges_nothing_after_a_fence(stage: NodeStage) -> None:
    """A driver that woke late has no effect."""
    await stage.put("a", 5)
    await stage.node.fence(_HIGHER, b"later")
    same(StaleNumber(_HIGHER), await stage.node.seal([slot("a")], at_ms=50, number=FIRST), "the answer to a seal")
    for kind in PurgeKind:
        answer = await stage.node.purge([slot("a")], kind=kind, number=FIRST)
        same(StaleNumber(_HIGHER), answer, f"the answer to a purge: {kind.value}")
    same(entry("a", 5), (await stage.state("a", number=_HIGHER)).entry, "the entry after them")


@node_case
async def a_higher_number_is_served_and_raises_nothing(stage: NodeStage) -> None:
    """Only a fence raises the number: neighbouring rungs are in use at once."""
    same(EntryStored(), await stage.put("a", 5, number=_HIGHER), "the answer to a put of a newer table")
    same(FIRST, (await stage.node.identity()).number, "the number of the node")
    same(EntryStored(), await stage.put("b", 5), "the answer to a put of the older table")


@node_case
async def a_slot_is_opened_and_left_under_the_own_number_alone(stage: NodeStage) -> None:
    """A number that the node was not fenced with empties no slot."""
    await stage.put("a", 5)
    for kind in (PurgeKind.OPEN, PurgeKind.LEFT):
        answer = await stage.node.purge([slot("a")], kind=kind, number=_HIGHER)
        same(StaleNumber(FIRST), answer, f"the answer to a purge under another number: {kind.value}")
    same(entry("a", 5), (await stage.state("a")).entry, "the entry after them")


@node_case
async def a_fence_with_a_lower_number_is_refused(stage: NodeStage) -> None:
    """The number of a node never goes down; the same fence again is no error."""
    same(StaleNumber(FIRST), await stage.node.fence(FIRST - 1, b"earlier"), "the answer to a lower fence")
    same(None, await stage.node.fence(FIRST, TABLE), "the answer to the same fence")
    same(FIRST, (await stage.node.identity()).number, "the number after them")


@node_case
async def another_table_under_the_same_number_is_refused(stage: NodeStage) -> None:
    """A number stands for one table."""
    await raises(InvalidInput, stage.node.fence(FIRST, b"another"), "another table under the number of the node")


@node_case
async def a_node_of_no_map_serves_nothing(stage: NodeStage) -> None:
    """An empty file or server counts for nothing before a fence has made it a node of the map."""
    stranger = stage.open(replace(MAP, name="other"))
    same((None, 0), ((await stranger.identity()).map_id, (await stranger.identity()).number), "its identity")
    await raises(InvalidInput, stranger.apply([entry("a", 5)], number=FIRST), "a put to a node of no such map")
    await raises(InvalidInput, stranger.read([b"a"], number=FIRST), "a read from a node of no such map")


@node_case
async def a_node_serves_one_map_of_a_name(stage: NodeStage) -> None:
    """A map of the same name with another id is another map."""
    stranger = stage.open(replace(MAP, id="22bb"))
    await raises(InvalidInput, stranger.apply([entry("a", 5)], number=FIRST), "a put of another map of that name")
    await raises(InvalidInput, stranger.fence(_HIGHER, b"theirs"), "a fence of another map of that name")
    same(MAP.id, (await stage.node.identity()).map_id, "the map of the node after it")


@node_case
async def two_maps_on_one_node_do_not_meet(stage: NodeStage) -> None:
    """Maps of two names have entries, marks and numbers of their own."""
    other = stage.open(replace(MAP, name="other", id="33cc"))
    await other.fence(3, b"table 3")
    await other.seal([slot("a")], at_ms=50, number=3)
    same(EntryStored(), await stage.put("a", 5), "the answer to a put to the first map")
    (state,) = await other.read([b"a"], number=3)
    same(None, getattr(state, "entry", "stale"), "the entry in the second map")
    same(FIRST, (await stage.node.identity()).number, "the number of the first map")


@node_case
async def every_fence_and_seal_raises_the_beat(stage: NodeStage) -> None:
    """A beat that went back shows that an older copy of the data was put back."""
    beats = [(await stage.node.identity()).beat]
    await stage.node.seal([0], at_ms=5, number=FIRST)
    beats.append((await stage.node.identity()).beat)
    await stage.node.fence(_HIGHER, b"later")
    beats.append((await stage.node.identity()).beat)
    holds(0 < beats[0] < beats[1] < beats[2], f"the beat grows: {beats}")


@node_case
async def data_outlives_the_handle(stage: NodeStage) -> None:
    """Another handle finds entries, marks, number and life as they were."""
    await stage.put("a", 5)
    await stage.node.seal([slot("a")], at_ms=50, number=FIRST, clean=True)
    before = await stage.node.identity()
    if stage.rig.keeps_data:
        await stage.node.close()
    again = stage.open()
    after = await again.identity()
    same((before.life, before.number, before.beat), (after.life, after.number, after.beat), "the identity")
    (state,) = await again.read([b"a"], number=FIRST)
    same((entry("a", 5), 50), (getattr(state, "entry", None), getattr(state, "clean_ms", None)), "the state")
