"""Cases of `apply` and `read`: the higher version wins, and the answer says so."""

from apportion.shards.replicas.entry import NodeEntry
from apportion.shards.replicas.nodes.api import EntryStored, EntrySuperseded, KeyState
from apportion.shards.replicas.version import MOST_COUNTER, MOST_WRITER, EntryVersion
from apportion.sim.conformance.expect import same
from apportion.sim.conformance.replicas.case import node_case
from apportion.sim.conformance.replicas.stage import FIRST, NodeStage, entry


@node_case
async def a_new_entry_is_stored_and_read(stage: NodeStage) -> None:
    """A key without an entry takes any version."""
    same(EntryStored(), await stage.put("k", 5), "the answer to a first put")
    same(KeyState(entry=entry("k", 5)), await stage.state("k"), "the state after it")


@node_case
async def a_key_without_an_entry_has_none(stage: NodeStage) -> None:
    """A read of an unknown key answers a state without an entry."""
    same(KeyState(entry=None), await stage.state("nobody"), "the state of an unknown key")


@node_case
async def a_higher_version_replaces_a_lower_one(stage: NodeStage) -> None:
    """The last writer wins, by version."""
    await stage.put("k", 5)
    same(EntryStored(), await stage.put("k", 6, b"off"), "the answer to a later put")
    same(entry("k", 6, b"off"), (await stage.state("k")).entry, "the entry after it")


@node_case
async def a_lower_version_is_superseded_by_the_one_that_is_held(stage: NodeStage) -> None:
    """The answer names the held version, and nothing changes."""
    await stage.put("k", 6)
    answer = await stage.put("k", 5, b"off")
    same(EntrySuperseded(EntryVersion(milliseconds=6, writer=1)), answer, "the answer to an earlier put")
    same(entry("k", 6), (await stage.state("k")).entry, "the entry after it")


@node_case
async def the_same_version_again_is_stored(stage: NodeStage) -> None:
    """A repeated request is answered as the first one."""
    await stage.put("k", 5)
    same(EntryStored(), await stage.put("k", 5), "the answer to the same put")
    same(EntryStored(), await stage.copy("k", 5), "the answer to a copy of it")


@node_case
async def versions_are_compared_by_their_bytes(stage: NodeStage) -> None:
    """Milliseconds come first, then the counter, then the writer, each as an unsigned number."""
    ladder = [
        EntryVersion(milliseconds=127, counter=MOST_COUNTER, writer=MOST_WRITER),
        EntryVersion(milliseconds=128),
        EntryVersion(milliseconds=128, writer=127),
        EntryVersion(milliseconds=128, writer=128),
        EntryVersion(milliseconds=128, writer=2**63),
        EntryVersion(milliseconds=128, counter=1),
        EntryVersion(milliseconds=2**47),
    ]
    for version in ladder:
        (answer,) = await stage.node.apply([_of(version)], number=FIRST)
        same(EntryStored(), answer, f"the answer to the higher version {version}")
    for version in ladder[:-1]:
        (answer,) = await stage.node.apply([_of(version)], number=FIRST)
        same(EntrySuperseded(ladder[-1]), answer, f"the answer to the lower version {version}")


@node_case
async def a_deletion_is_an_entry_with_a_version(stage: NodeStage) -> None:
    """A deletion supersedes earlier puts, also those that come late."""
    await stage.put("k", 5)
    same(EntryStored(), await stage.put("k", 7, None), "the answer to a deletion")
    same(EntrySuperseded(EntryVersion(milliseconds=7, writer=1)), await stage.put("k", 6), "the answer to a late put")
    same(entry("k", 7, None), (await stage.state("k")).entry, "the entry after it")


@node_case
async def an_empty_value_is_no_deletion(stage: NodeStage) -> None:
    """Empty bytes and None differ."""
    await stage.put("k", 5, b"")
    same(entry("k", 5, b""), (await stage.state("k")).entry, "the entry of an empty value")


@node_case
async def keys_and_values_keep_every_byte(stage: NodeStage) -> None:
    """No byte is special: zeros, invalid UTF-8, quotes, and the case of letters."""
    values = bytes(range(256))
    for key in ("k\x00", "k", "K", "k'", 'k"', "ключ", "k%"):
        await stage.put(key, 5, values + key.encode())
    for key in ("k\x00", "k", "K", "k'", 'k"', "ключ", "k%"):
        same(values + key.encode(), _value(await stage.state(key)), f"the value of {key!r}")


@node_case
async def an_expiry_is_kept_to_the_millisecond(stage: NodeStage) -> None:
    """The node keeps an entry that has expired; its readers decide."""
    sent = entry("k", 5, expires_ms=6)
    await stage.node.apply([sent], number=FIRST)
    same(sent, (await stage.state("k")).entry, "the entry with an expiry")


@node_case
async def each_entry_of_a_batch_is_answered_in_its_place(stage: NodeStage) -> None:
    """One entry of a batch does not affect another; reads keep their order too."""
    await stage.put("b", 9)
    answers = await stage.node.apply([entry(key, 5) for key in ("a", "b", "c")], number=FIRST)
    held = EntryVersion(milliseconds=9, writer=1)
    same((EntryStored(), EntrySuperseded(held), EntryStored()), answers, "the answers to a batch")
    states = await stage.node.read([b"c", b"x", b"b"], number=FIRST)
    same((entry("c", 5), None, entry("b", 9)), tuple(getattr(each, "entry", "") for each in states), "its states")


@node_case
async def a_key_twice_in_a_batch_ends_with_the_higher_version(stage: NodeStage) -> None:
    """Entries of a batch are applied in their order, each to the state that the one before has left."""
    answers = await stage.node.apply([entry("k", 6), entry("k", 5)], number=FIRST)
    same((EntryStored(), EntrySuperseded(EntryVersion(milliseconds=6, writer=1))), answers, "the answers")


@node_case
async def a_large_value_is_kept_whole(stage: NodeStage) -> None:
    """A value has up to 1 MiB."""
    value = bytes(range(256)) * 4_096
    await stage.put("large", 5, value)
    same(True, value == _value(await stage.state("large")), "whether a value of 1 MiB is kept")


def _of(version: EntryVersion) -> NodeEntry:
    return NodeEntry(key=b"k", version=version, value=f"{version}".encode())


def _value(state: KeyState) -> bytes | None:
    return None if state.entry is None else state.entry.value
