"""Server lists of memcached clients: what they say, what is refused and on which line, and back again."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion import Node, Topology
from apportion.console.files.readers import memcached
from apportion.console.files.readers.memcached import parse_memcached, read_memcached, write_memcached
from apportion.errors import BadWeight, InvalidInput
from tests.console.running import written

names = st.from_regex(r"[a-zé節.-]{1,12}[a-z]", fullmatch=True)
ids = st.builds("{}:{}".format, names | st.sampled_from(["[::1]", "[2001:db8::3]"]), st.integers(1, 65_535))
nodes = st.builds(Node, ids, weight=st.integers(1, 10**9))
topologies = st.lists(nodes, min_size=1, max_size=8, unique_by=lambda node: node.id).map(Topology)


def pairs(text):
    """Return the ids and weights of a list."""
    return [(node.id, node.weight) for node in parse_memcached(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h1:11211", [("h1:11211", 1)]),
        ("h1:11211 600\nh2:11211\t300\n", [("h1:11211", 600), ("h2:11211", 300)]),
        ("h1:11211:600,h2:11211:300", [("h1:11211", 600), ("h2:11211", 300)]),
        ("h1:1 h2:2 5 h3:3", [("h1:1", 1), ("h2:2", 5), ("h3:3", 1)]),
        ("h1:1 2, h2:2:3 h3:3,\nh4:4", [("h1:1", 2), ("h2:2", 3), ("h3:3", 1), ("h4:4", 1)]),
        ("# all\n\n  h1:1 # 7 h9:9\r\n#h2:2\nh3:3 #\n", [("h1:1", 1), ("h3:3", 1)]),
        ("[::1]:11211 2\n[2001:db8::3]:80:4", [("[2001:db8::3]:80", 4), ("[::1]:11211", 2)]),
        ("b:1\na:1\nA:1", [("A:1", 1), ("a:1", 1), ("b:1", 1)]),
        ("h1:1 007", [("h1:1", 7)]),
        ("é.example:1 1000000000", [("é.example:1", 10**9)]),
    ],
)
def test_every_spelling_of_a_list_is_read(text, expected):
    assert expected == pairs(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("h1:1\nh2", "line 2 is 'h2', expected host:port"),
        ("\n\n600", "line 3 is '600', expected host:port"),
        ("h1:1\n600 h2:1", "line 2 is '600', expected host:port"),
        ("h1:1, 600", "line 1 is '600', expected host:port"),
        ("h1:1 600 700", "line 1 is '700', expected host:port"),
        ("h1:1:5 6", "line 1 is 'h1:1:5 6', expected one weight"),
        ("h1:0", "line 1 is 'h1:0', expected host:port"),
        ("h1:65536", "line 1 is 'h1:65536', expected host:port"),
        ("h1:011211", "line 1 is 'h1:011211', expected host:port"),
        ("h1:1:", "line 1 is 'h1:1:', expected host:port"),
        ("h1:x", "line 1 is 'h1:x', expected host:port"),
        (":11211", "line 1 is ':11211', expected host:port"),
        ("::1:11211", "line 1 is '::1:11211', expected host:port"),
        ("/run/m.sock 1", "line 1 is '/run/m.sock', expected host:port"),
        ("h1:1 -1", "line 1 is '-1', expected host:port"),
        ("h1:1 1.5", "line 1 is '1.5', expected host:port"),
        ("h1:\u0661", "line 1 is 'h1:\u0661', expected host:port"),
        ("h1:1 0", "line 1 is '0', expected a weight in 1 .. 1000000000"),
        ("h1:1:1000000001", "line 1 is '1000000001', expected a weight in 1"),
        ("h1:1 " + "9" * 5000, "expected a weight in 1"),
        ("h1:1\nh2:2\nh1:1 5", "line 3 is 'h1:1', expected each server once; line 1 has it too"),
        ("h1:1,,h2:2", "line 1 is 'h1:1,,h2:2', expected a server before each comma"),
        (",", "line 1 is ',', expected a server before each comma"),
        ("h1:1\n\ufeffh2:1", "line 2 is '\\ufeffh2:1', expected a name"),
        ("x" * 256 + ":1", "expected a name"),
        ("", "server list is '', expected at least one server"),
        ("# nothing\n", "expected at least one server"),
    ],
)
def test_a_mistake_is_named_with_its_line(text, says):
    with pytest.raises(InvalidInput) as refused:
        parse_memcached(text)
    assert says in refused.value.problem
    assert refused.value.hint


def test_a_password_never_reaches_a_message():
    with pytest.raises(InvalidInput) as refused:
        parse_memcached("memcached://u:s3cret@h1:11211")
    assert "s3cret" not in str(refused.value)


def test_too_many_servers_are_refused_on_their_line(monkeypatch):
    monkeypatch.setattr(memcached, "MAX_NODES", 3)
    assert 3 == len(parse_memcached("a:1 b:1 c:1"))
    with pytest.raises(InvalidInput, match="line 2 is 'd:1', expected at most 3 servers"):
        parse_memcached("a:1 b:1 c:1\nd:1 e:1")


def test_a_text_that_is_too_long_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr(memcached, "MAX_BYTES", 10)
    with pytest.raises(InvalidInput, match="at most 10 characters"):
        parse_memcached("a:1 b:1 c:1")


def test_a_line_of_many_servers_is_read():
    text = " ".join(f"h{number}:1 2" for number in range(20_000))
    assert 20_000 == len(parse_memcached(text))


@settings(max_examples=50)
@given(topologies)
def test_a_written_list_reads_back_as_the_same_nodes(topology):
    assert topology == parse_memcached(write_memcached(topology))


@settings(max_examples=50)
@given(topologies, st.sampled_from([" ", "\n", ", ", ",\n"]), st.sampled_from([" ", ":", "\t"]))
def test_separators_do_not_matter(topology, between, before_weight):
    text = between.join(f"{node.id}{before_weight}{node.weight:.0f}" for node in topology)
    assert topology == parse_memcached(text)


@given(st.one_of(st.text(max_size=40), st.text("ab:12 ,#\n[]\u00e9", max_size=12)))
def test_a_text_that_is_not_refused_can_be_written_back(text):
    try:
        parsed = parse_memcached(text)
    except InvalidInput:
        return
    assert parsed == parse_memcached(write_memcached(parsed))


def test_zones_have_no_place_in_a_list():
    topology = Topology([Node("b:1", zone=("eu",), weight=2), "a:1"], cluster="shop")
    assert "a:1 1\nb:1 2\n" == write_memcached(topology)


@pytest.mark.parametrize(
    "node_id", ["h1", "h1:0", "h1:70000", "h1:1:2", "h 1:1", "h1,h2:1", "h#1:1", "/run/m.sock", "節点", "::1:1", "1"]
)
def test_an_id_that_a_list_cannot_hold_is_refused(node_id):
    with pytest.raises(InvalidInput, match="node id is"):
        write_memcached(Topology(["ok:1", node_id]))


@pytest.mark.parametrize("weight", [0, 0.5, 1.5])
def test_a_weight_that_a_list_cannot_hold_is_refused(weight):
    with pytest.raises(BadWeight, match="weight of node 'a:1'"):
        write_memcached(Topology([Node("a:1", weight=weight), "b:1"]))


def test_a_file_is_read(tmp_path):
    assert ("a:1", "b:2") == read_memcached(written(tmp_path, "servers", "b:2 3\na:1\n")).ids


@pytest.mark.parametrize(
    ("data", "says"), [(b"a:1\nb\xff:1", "in line 2, is not"), (b"", "not empty"), (b"a:1\nb", "line 2")]
)
def test_a_file_that_is_no_list_is_refused(data, says, tmp_path):
    with pytest.raises(InvalidInput, match=says):
        read_memcached(written(tmp_path, "servers", data))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="no such file"):
        read_memcached(tmp_path / "servers")
