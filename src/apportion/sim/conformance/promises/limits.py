"""Limits: a store refuses invalid input before anything happens, and names it; valid input comes back unchanged."""

from collections.abc import Sequence

from apportion.errors import InvalidInput
from apportion.sim.conformance.case import case
from apportion.sim.conformance.context import Stage
from apportion.sim.conformance.expect import committed, holds, raises, same
from apportion.sim.conformance.steps import keys, make
from apportion.stores import Absent, Compare, Put, Unchanged

_MOST_KEY_BYTES = 1_024
_NO_KEYS = ("", "a\0b", "\ud800", "k" * (_MOST_KEY_BYTES + 1), "ä" * (_MOST_KEY_BYTES // 2 + 1), "k" * 65_537)


async def _invalid(
    stage: Stage, named: str, when: Sequence[Compare], puts: Sequence[Put] = (), deletes: Sequence[str] = ()
) -> None:
    """Fail unless a commit is refused as invalid, with a message that names the limit."""
    commit = stage.store.commit(when=when, puts=puts, deletes=deletes)
    error = await raises(InvalidInput, commit, f"a commit that is invalid ({named})")
    holds(named in str(error), f"the message names {named!r}: {error}")


@case()
async def what_is_no_key_is_refused(stage: Stage) -> None:
    """Empty keys, NUL, lone surrogates and keys above 1024 bytes are invalid, and the handle goes on."""
    for key in _NO_KEYS:
        await _invalid(stage, "key", [Absent(key=key)], [Put(key=key, value=b"")])
    await make(stage.store, "good")
    same(["good"], await keys(stage.store), "the keys")


@case()
async def a_key_twice_in_a_commit_is_refused(stage: Stage) -> None:
    """A commit compares a key once and writes it once; anything else is invalid and changes nothing."""
    first = await make(stage.store, "a")
    is_first, put = Unchanged(key="a", revision=first), Put(key="a", value=b"1")
    await _invalid(stage, "once", [is_first, is_first], [put])
    await _invalid(stage, "once", [is_first, Absent(key="a")], [put])
    await _invalid(stage, "once", [is_first], [put, put])
    await _invalid(stage, "once", [is_first], [put], ["a"])
    await _invalid(stage, "once", [is_first], [], ["a", "a"])
    same([first], [each.revision for each in (await stage.store.scan("")).items], "the revisions")


@case()
async def a_write_without_a_compare_is_refused(stage: Stage) -> None:
    """Every written key is compared, no deleted key is compared as absent, and no commit is empty."""
    first = await make(stage.store, "a")
    await _invalid(stage, "compared", [], [Put(key="b", value=b"")])
    await _invalid(stage, "compared", [Unchanged(key="a", revision=first)], [Put(key="b", value=b"")])
    await _invalid(stage, "Unchanged", [Absent(key="a")], [], ["a"])
    await _invalid(stage, "commit", [Unchanged(key="a", revision=first)])
    same(["a"], await keys(stage.store), "the keys")


@case()
async def a_revision_that_cannot_be_is_refused(stage: Stage) -> None:
    """A compare is invalid if its revision is 0, below 0, beyond 63 bits, or no integer."""
    for revision in (0, -1, 2**63, True, 1.0):
        wrong = Unchanged(key="a", revision=revision)  # type: ignore[arg-type]
        await _invalid(stage, "revision", [wrong], [Put(key="a", value=b"")])


@case()
async def the_largest_value_is_kept_and_a_larger_one_refused(stage: Stage) -> None:
    """A value of `max_value_bytes` is kept unchanged. One byte more is invalid, and the message names the limit."""
    most = min(stage.able.max_value_bytes, stage.able.max_commit_bytes - 4_096)
    value = bytes(range(256)) * (most // 256) + bytes(most % 256)
    await make(stage.store, "large", value=value)
    holds((await stage.keys())["large"] == value, "the largest value comes back as it was")
    too_large = Put(key="larger", value=bytes(stage.able.max_value_bytes + 1))
    await _invalid(stage, "max_value_bytes", [Absent(key="larger")], [too_large])
    same(["large"], await keys(stage.store), "the keys")


@case()
async def a_commit_of_too_many_operations_is_refused_and_never_split(stage: Stage) -> None:
    """A commit of `max_operations` has one revision. One operation more is invalid, and nothing of it happens."""
    names = [f"{number:05}" for number in range(stage.able.max_operations + 1)]
    absent, puts = [Absent(key=name) for name in names], [Put(key=name, value=b"") for name in names]
    await _invalid(stage, "max_operations", absent, puts)
    same([], await keys(stage.store), "the keys after the refusal")
    revision = committed(await stage.store.commit(when=absent[:-1], puts=puts[:-1]))
    scan = await stage.store.scan("")
    same({revision}, {each.revision for each in scan.items}, "the revisions of the largest commit")
    same(names[:-1], [each.key for each in scan.items], "its keys")


@case()
async def a_commit_of_too_many_bytes_is_refused_and_never_split(stage: Stage) -> None:
    """A commit above `max_commit_bytes` is invalid, the message names the limit, and nothing of it happens."""
    size = min(stage.able.max_value_bytes, stage.able.max_commit_bytes)
    names = [f"{number}" for number in range(stage.able.max_commit_bytes // size + 1)]
    holds(len(names) <= stage.able.max_operations, "a commit reaches the limit of bytes before the limit of operations")
    value = bytes(size)
    await _invalid(
        stage, "max_commit_bytes", [Absent(key=name) for name in names], [Put(key=name, value=value) for name in names]
    )
    same([], await keys(stage.store), "the keys")


@case()
async def keys_and_values_come_back_as_they_were(stage: Stage) -> None:
    """Every text of up to 1024 bytes without NUL and surrogates is a key. Any bytes are a value, also empty bytes."""
    values = (b"", b"\0", bytes(range(256)), b"\xff\xfe", b"'; --", b"\r\n$-1\r\n")
    signs = (" ", "/", "//", "%", "_", "\\", "'", '"', "*?[a]", "a\nb")
    texts = (*signs, "é", "e\u0301", "ß", "日本", "🙂", "\uffff", "A", "a")
    entries = {text: values[number % len(values)] for number, text in enumerate(texts)}
    entries["k" * _MOST_KEY_BYTES] = b"long"
    entries["🙂" * (_MOST_KEY_BYTES // 4)] = b"long too"
    for key, value in entries.items():
        await make(stage.store, key, value=value)
    same(entries, await stage.keys(), "the items")
