"""The layout of nginx is the one of its docstring, and gives the answers of a real nginx."""

import json
import pickle
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Node, Topology, plan
from apportion.errors import BadWeight, InvalidInput, NoNodes
from apportion.placement.layouts.nginx import HASHER, Nginx
from tests import invariants
from tests.placement import layout_twins as twins

VECTORS = json.loads((Path(__file__).parent / "vectors" / "nginx.json").read_text(encoding="utf-8"))
KEYS = [f"/page/{number}" for number in range(300)]

ids = st.sampled_from(["10.0.0.1:80", "10.0.0.2:80", "10.0.0.1:8080", "app.example", "unix:/run/a.sock", "é:1"])
upstreams = st.lists(
    st.builds(Node, ids, weight=st.sampled_from([0, 1, 1, 2, 5])),
    min_size=1,
    max_size=6,
    unique_by=lambda node: node.id,
).map(Topology)
owning_upstreams = upstreams.filter(lambda topology: any(node.weight for node in topology))


def parts(node_id):
    """Return the host and the port of a server, by hand."""
    if node_id.startswith("unix:"):
        return node_id.removeprefix("unix:").encode(), b""
    host, _, port = node_id.partition(":")
    return host.encode(), port.encode()


def twin_points(topology):
    """Return the points of the twin."""
    return twins.nginx_points([(node.id, *parts(node.id), int(node.weight)) for node in topology])


@settings(max_examples=15)
@given(owning_upstreams, st.lists(st.one_of(st.binary(max_size=8), st.text(max_size=8)), min_size=1, max_size=10))
def test_a_key_belongs_to_the_first_point_at_or_after_its_crc(topology, keys):
    keys = [key if isinstance(key, bytes) else key.encode(errors="replace") for key in keys]
    points = twin_points(topology)
    assert [twins.owner_of(points, twins.crc32(key)) for key in keys] == Nginx(topology).route_many(keys)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_the_answers_of_nginx_are_ours(case):
    placement = Nginx([Node(node_id, weight=weight) for node_id, weight in case["servers"]])
    keys, owners = zip(*case["owners"], strict=True)
    assert [case["servers"][owner][0] for owner in owners] == placement.route_many(keys)
    assert len(case["servers"]) == len(Counter(owners))


@pytest.mark.parametrize(
    ("node_id", "host", "port"),
    [
        ("10.0.0.1:80", b"10.0.0.1", b"80"),
        ("app.example", b"app.example", b""),
        ("[::1]:80", b"[::1]", b"80"),
        ("[::1]", b"[::1]", b""),
        ("host:80x", b"host:80x", b""),
        ("unix:/run/a:80", b"/run/a:80", b""),
        ("UNIX:/run/a", b"/run/a", b""),
        ("a:080", b"a", b"080"),
    ],
)
def test_a_server_is_split_where_only_digits_follow_its_last_colon(node_id, host, port):
    expected = [point for point, _ in twins.nginx_points([(node_id, host, port, 1)])]
    assert [(point + 1 << 32) - 1 for point in expected] == list(Nginx([node_id])._tokens_of(0))


@settings(max_examples=20)
@given(owning_upstreams, owning_upstreams)
def test_any_change_of_an_upstream_moves_only_with_cause(old, new):
    change = plan(Nginx(old), Nginx(new))
    invariants.nothing_strays(change)
    assert new == Nginx(old).on(new).topology


def test_a_heavier_server_keeps_its_points():
    light, heavy = (Nginx([Node("a:1", weight=weight), "b:1"]) for weight in (2, 3))
    tokens = list(heavy._tokens_of(0))
    assert (320, 480, list(light._tokens_of(0))) == (len(tokens[:320]), len(tokens), tokens[:320])


@pytest.mark.parametrize("pair", [("/run/a", "unix:/run/a"), ("UNIX:/run/a", "unix:/run/a"), ("a:", "a")])
def test_two_spellings_of_one_server_are_refused(pair):
    with pytest.raises(InvalidInput, match="can tell from"):
        Nginx(pair)


def test_a_fractional_weight_is_refused():
    with pytest.raises(BadWeight, match="a whole number, as nginx has it"):
        Nginx([Node("a:1", weight=1.5)])


def test_too_many_points_are_refused_before_any_is_made():
    with pytest.raises(InvalidInput, match="tokens of nginx is 160000000000, expected at most MAX_TOKENS"):
        Nginx([Node("a:1", weight=1e9)])


@pytest.mark.parametrize("nodes", [[], [Node("a:1", weight=0)]])
def test_no_server_is_refused(nodes):
    with pytest.raises(NoNodes):
        Nginx(nodes)


def test_an_explanation_tells_who_would_own_the_key_without_its_owner():
    placement = Nginx(["a:1", Node("b:1", weight=2), "c:1"])
    for key in KEYS[:50]:
        explained = placement.explain(key)
        rest = placement.on(placement.topology.without(explained.owner))
        assert (placement.route(key), rest.route(key)) == (explained.owner, explained.if_owner_left)
        assert explained.if_owner_left == placement.preference(key, 2)[1]
        assert ("nginx", "crc32", HASHER(key.encode())) == (explained.placement, explained.hasher, explained.hash)


def test_an_nginx_is_a_value():
    placement = Nginx(["a:1", Node("b:1", weight=2)])
    back = pickle.loads(pickle.dumps(placement))
    assert (placement, hash(placement), repr(placement)) == (back, hash(back), repr(back))
    assert placement.route_many(KEYS) == back.route_many(KEYS)
    assert placement.table() == back.table()
