"""Scans: all keys under a prefix and no others, sorted, at one revision."""

import asyncio

from apportion.errors import InvalidInput
from apportion.sim.conformance.case import case
from apportion.sim.conformance.context import Stage
from apportion.sim.conformance.expect import committed, holds, raises, same
from apportion.sim.conformance.steps import fill, keys, make
from apportion.stores import Put, Unchanged


@case()
async def a_scan_shows_one_revision(stage: Stage) -> None:
    """While commits write pairs of keys, no scan of another handle mixes two of the commits."""
    writer = await stage.connect()
    names = ["left", *(f"m{number:02}" for number in range(20)), "right"]
    revision = await make(writer, *names, value=b"0")
    done = asyncio.Event()

    async def _write(revision: int) -> None:
        for turn in range(1, 31):
            when = [Unchanged(key=name, revision=revision) for name in names]
            puts = [Put(key=name, value=b"%d" % turn) for name in names]
            revision = committed(await writer.commit(when=when, puts=puts))
            await asyncio.sleep(0)
        done.set()

    writing = stage.beside(_write(revision))
    while not done.is_set() and not writing.done():
        scan = await stage.store.scan("")
        same(1, len({(each.value, each.revision) for each in scan.items}), f"states in the scan at {scan.revision}")
        holds(all(each.revision <= scan.revision for each in scan.items), "no item is newer than its scan")
        await asyncio.sleep(0)
    await writing


@case("linearizable")
async def a_scan_sees_what_was_acknowledged_before_it_began(stage: Stage) -> None:
    """After one handle was told of a commit, every scan that another handle begins sees the commit."""
    other = await stage.connect()
    for number in range(25):
        writer, reader = (stage.store, other) if number % 2 else (other, stage.store)
        revision = await make(writer, f"{number}")
        scan = await reader.scan("")
        holds(scan.revision >= revision, f"the scan at {scan.revision} is not older than the commit at {revision}")
        same(number + 1, len(scan.items), "items after the commit")


@case()
async def a_scan_is_sorted_by_the_bytes_of_keys(stage: Stage) -> None:
    """Items come in the order of the UTF-8 of their keys, whatever the order and language of the writers."""
    names = ["b", "a", "B", "é", "e", "z", "Z", "10", "9", "-", "_", "🙂", "\uffff", "aa", "a/", "a0", "a b", "ｱ"]
    for name in names:
        await make(stage.store, name)
    same(sorted(names, key=str.encode), await keys(stage.store), "the order of keys")


@case()
async def a_prefix_ends_where_it_ends(stage: Stage) -> None:
    """A scan holds all keys that start with the prefix and no others; no character has a special meaning."""
    names = ["a", "a/", "a/b", "a0", "a\U0010ffff", "a\U0010ffffz", "b", "a%", "a_", "a*", "a\\", "a[b]", "A/b", "ab"]
    for name in names:
        await make(stage.store, name)
    for prefix in ["", *names, "a\u00e9", "a%b", "?", "nothing"]:
        expected = sorted((name for name in names if name.startswith(prefix)), key=str.encode)
        same(expected, await keys(stage.store, prefix), f"the keys under {prefix!r}")


@case()
async def a_scan_of_thousands_of_items_is_whole(stage: Stage) -> None:
    """A scan of 5 000 items is neither cut nor spread over revisions."""
    names = [f"many/{number:06}" for number in range(5_000)]
    await fill(stage.store, names, bytes(100))
    await make(stage.store, "many0")
    same(names, await keys(stage.store, "many/"), "the keys")


@case()
async def a_scan_of_nothing_has_a_revision(stage: Stage) -> None:
    """Without items, a scan still tells the store's revision and incarnation, and every handle tells the same."""
    other = await stage.connect()
    revision = await make(other, "there")
    scan = await stage.store.scan("nothing/")
    same((), scan.items, "the items")
    holds(scan.revision >= revision, "the revision of an empty scan is the store's")
    holds(scan.incarnation > 0, "an incarnation is a number above 0")
    same(scan.incarnation, (await other.scan("")).incarnation, "the incarnation that another handle sees")


@case()
async def a_prefix_that_no_key_can_have_is_refused(stage: Stage) -> None:
    """NUL, lone surrogates and prefixes above 1024 bytes are invalid."""
    for prefix in ("\0", "\ud800", "k" * 1_025):
        await raises(InvalidInput, stage.store.scan(prefix), f"a scan of the prefix {prefix!r}")
    same([], await keys(stage.store), "the keys of a handle that goes on")
