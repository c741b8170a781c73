"""A contender whose answers are not those of a placement is not timed, and one that is absent says so."""

from zlib import crc32

import pytest

from bench import ours, peers
from bench.contender import Contender, NotSane, installed, missing
from bench.fleet import node_names
from bench.peers.textbook import TextbookRing

CONTENDERS = [value for room in (ours, peers) for value in vars(room).values() if isinstance(value, Contender)]


def modulo(nodes):
    order = sorted(nodes)
    return lambda key: order[crc32(key.encode()) % len(order)]


def named(build, **options):
    return Contender(name="planted", version="1", build=build, **options)


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_every_contender_is_sane_or_says_why_it_is_absent(contender):
    if contender.absent:
        pytest.skip(contender.absent)
    contender.check()
    assert contender.version[-1].isalnum()


def test_a_sane_contender_passes():
    named(modulo, documented=modulo).check()


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda nodes: lambda key: "elsewhere", "which no node is called"),
        (lambda nodes: lambda key: min(nodes), "gives no key of 1000 to"),
        (lambda nodes: lambda key: nodes[crc32(key.encode()) % len(nodes)], "when asked or built again"),
    ],
)
def test_an_insane_contender_is_found(build, said):
    with pytest.raises(NotSane, match=said):
        named(build).check()


def test_a_contender_that_answers_otherwise_than_it_documents_is_found():
    def documented(nodes):
        route = modulo(nodes)
        return lambda key: route(key) if key != "user/0" else "node-0000"

    with pytest.raises(NotSane, match="user/0"):
        named(modulo, documented=documented).check()


def test_a_package_that_is_not_installed_is_missing():
    assert ("", True) == (installed("no-such-package"), "not installed" in missing("no-such-package"))
    assert (True, "") == (installed("mmh3").startswith("mmh3 "), missing("mmh3"))


def test_the_textbook_walk_begins_with_the_owner_and_repeats_no_node():
    ring = TextbookRing(node_names(10))
    for key in map(str, range(1000)):
        first, *others = ring.get_nodes(key, 3)
        assert (ring.get_node(key), 3) == (first, len({first, *others}))
