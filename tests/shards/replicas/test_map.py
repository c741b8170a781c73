"""An opened map over SQLite files: its calls in both forms, its creation, a node that is down, tables that change."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import apportion
from apportion import Node, Topology, sync
from apportion.errors import (
    BadSnapshot,
    ClockAstray,
    InvalidInput,
    NotEnoughNodes,
    NotPromised,
    QuorumNotReached,
    StaleRoute,
    StoreWentBack,
    UnknownNode,
    UnknownOption,
)
from apportion.shards.replicas.coordinator import Coordinator
from apportion.shards.replicas.entry import MOST_KEY_BYTES, MOST_VALUE_BYTES
from apportion.shards.replicas.nodes.connect import connect_node
from apportion.shards.replicas.nodes.memory import MemoryNode
from apportion.shards.replicas.nodes.node_map import NodeMap
from apportion.shards.replicas.records import MapKeys, MapRecord, ReplicaTable
from apportion.shards.replicas.slot_space import SlotSpace
from apportion.stores import Put, Unchanged
from apportion.sync import replicas

RACKS = Topology([Node("a", zone=("r1",)), Node("b", zone=("r2",)), Node("c", zone=("r3",))])
CENTRES = Topology([Node(f"{dc}-{rack}", zone=(dc, rack)) for dc in ("dc1", "dc2") for rack in ("r1", "r2", "r3")])


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/control.db"


def urls_of(tmp_path, topology=RACKS):
    return {node.id: f"sqlite:///{tmp_path}/{node.id}.db" for node in topology}


@pytest.fixture
def made(url, tmp_path):
    """A map of three files; return the URL of its control store."""
    replicas.create(url, "flags", copies=3, slots=16, topology=RACKS, urls=urls_of(tmp_path))
    return url


def table_of(url):
    """Return the table of the map, and its record."""
    keys = MapKeys("flags")
    with sync.open_store(url) as store:
        found = {item.key: item for item in store.scan(keys.prefix).items}
    return ReplicaTable.decode(found[keys.table].value), MapRecord.decode(found[keys.map].value)


def published(url, table):
    """Write another table of the map."""
    keys = MapKeys("flags")
    with sync.open_store(url) as store:
        (item,) = store.scan(keys.table).items
        when = [Unchanged(key=keys.table, revision=item.revision)]
        store.commit(when=when, puts=[Put(key=keys.table, value=table.encode())])


def fenced(url, names, number):
    """Fence some nodes with a table of this number."""
    table, record = table_of(url)
    of = NodeMap(name="flags", id=record.id, space=SlotSpace(record.slots))

    async def _fence():
        for name in names:
            node = connect_node(table.urls[name], of)
            await node.fence(number, replace(table, number=number).encode())
            await node.close()

    asyncio.run(_fence())


def test_a_value_is_written_read_and_deleted(made):
    with sync.open_map(made, "flags") as flags:
        first = flags.put("checkout", b"on")
        assert (b"on", first, None) == (
            (found := flags.get("checkout")).value, found.version, found.expires_at
        )  # fmt: skip
        second = flags.delete("checkout")
        assert first < second
        assert len(f"{second}") == 32
        assert flags.get("checkout") is None
        assert ("a", "b", "c") == flags.nodes == tuple(sorted(flags.replicas_of("checkout")))
        assert "slot" in f"{flags.explain('checkout')}"
        assert (2, 2, 0) == (flags.statistics.puts, flags.statistics.gets, flags.statistics.failed)
    with sync.open_map(made, "flags") as flags:
        assert flags.put("checkout", b"off") > second


def test_the_async_form_does_the_same(made):
    async def _main():
        async with apportion.open_map(made, "flags", consistency="all") as flags:
            versions = await flags.put_many({"a": b"1", "b": b"2"}, ttl=timedelta(hours=1))
            found = await flags.get_many(["b", "a", "b", "c"])
            assert {"b": b"2", "a": b"1"} == {key: each.value for key, each in found.items() if each is not None}
            assert versions == {key: each.version for key, each in found.items() if each is not None} | versions
            assert found["c"] is None
            left = found["a"].expires_at - datetime.now(UTC)
            assert timedelta(minutes=59) < left <= timedelta(hours=1)
            await flags.put("short", b"x", ttl=timedelta(milliseconds=1))
            await asyncio.sleep(0.01)
            assert await flags.get("short") is None

    asyncio.run(_main())


def test_one_of_three_nodes_may_be_gone_and_the_rest_is_named(made, tmp_path):
    (tmp_path / "b.db").unlink()
    with sync.open_map(made, "flags") as flags:
        flags.put("checkout", b"on")
        assert b"on" == flags.get("checkout").value
        with pytest.raises(QuorumNotReached) as caught:
            flags.put("checkout", b"on", consistency="all")
        assert (2, 3) == (caught.value.acks, caught.value.needed)
        assert {"b"} == set(flags.troubles)
        assert "gone" in f"{flags.troubles['b']}"
        (tmp_path / "a.db").unlink()
        with pytest.raises(QuorumNotReached):
            flags.get("checkout")
        assert b"on" == flags.get("checkout", consistency="one").value


def test_an_empty_file_in_place_of_a_node_counts_for_nothing(made, tmp_path):
    (tmp_path / "b.db").unlink()
    (tmp_path / "b.db").touch()
    with sync.open_map(made, "flags") as flags:
        with pytest.raises(QuorumNotReached):
            flags.put("checkout", b"on", consistency="all")
        assert "no such map" in f"{flags.troubles['b']}"


def test_a_stale_table_is_refused_then_read_again(made):
    with sync.open_map(made, "flags") as flags:
        table, _ = table_of(made)
        published(made, replace(table, number=4))
        fenced(made, "abc", 4)
        flags.put("checkout", b"on")
        assert b"on" == flags.get("checkout").value
        assert (1, 4) == (flags.statistics.refreshed, flags.explain("checkout").number)


def test_a_control_store_below_its_nodes_went_back(made):
    fenced(made, "abc", 4)
    with sync.open_map(made, "flags") as flags, pytest.raises(StoreWentBack, match="table 4"):
        flags.put("checkout", b"on")


def test_a_table_that_is_stale_twice_is_an_error(made, monkeypatch):
    async def _nothing(_self, _number):
        return None

    monkeypatch.setattr(Coordinator, "_refreshed_to", _nothing)
    fenced(made, "abc", 4)
    with sync.open_map(made, "flags") as flags, pytest.raises(StaleRoute):
        flags.put("checkout", b"on")


def test_a_creation_goes_on_and_another_one_is_refused(made, tmp_path, url):
    (tmp_path / "c.db").unlink()  # as if the first call had been killed before its last fence
    again = {"copies": 3, "slots": 16, "topology": RACKS, "urls": urls_of(tmp_path)}
    replicas.create(url, "flags", **again)
    with sync.open_map(url, "flags", consistency="all") as flags:
        flags.put("checkout", b"on")
    with pytest.raises(InvalidInput, match="other arguments"):
        replicas.create(url, "flags", **again | {"slots": 32})
    with pytest.raises(InvalidInput, match="node of the map"):
        replicas.create(f"sqlite:///{tmp_path}/other.db", "flags", **again)
    replicas.create(url, "sessions", **again)  # another name, on the same nodes


def test_lists_by_data_centre_serve_a_local_quorum(url, tmp_path):
    copies = {"dc1": 3, "dc2": 2}
    replicas.create(url, "flags", copies=copies, slots=16, topology=CENTRES, urls=urls_of(tmp_path, CENTRES))
    with sync.open_map(url, "flags", consistency="local_quorum", datacenter="dc1") as flags:
        places = [node.partition("-")[0] for node in flags.replicas_of("checkout")]
        assert ["dc1"] * 3 + ["dc2"] * 2 == places
        assert 5 == len({*flags.replicas_of("checkout")})
        for node in ("dc2-r1", "dc2-r2", "dc2-r3"):
            (tmp_path / f"{node}.db").unlink()
        flags.put("checkout", b"on")
        assert b"on" == flags.get("checkout").value
        flags.put("checkout", b"off", consistency="quorum")  # three of five
    with sync.open_map(url, "flags") as flags, pytest.raises(InvalidInput, match="no data centre"):
        flags.get("checkout", consistency="local_quorum")
    with pytest.raises(UnknownOption), sync.open_map(url, "flags", datacenter="dc3"):
        pass


def test_a_clock_that_is_an_hour_off_writes_nothing(url, monkeypatch):
    nodes = {name: f"memory://clock-{name}" for name in "abc"}
    monkeypatch.setattr(MemoryNode, "_clock_ms", property(lambda _: lambda: 0, lambda *_: None), raising=False)
    replicas.create(url, "flags", copies=3, slots=16, topology=RACKS, urls=nodes)
    with pytest.raises(ClockAstray, match="nodes' clocks"), sync.open_map(url, "flags"):
        pass


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"copies": 4}, NotEnoughNodes, "4 replicas"),
        ({"copies": 0}, InvalidInput, "copies"),
        ({"copies": True}, InvalidInput, "copies"),
        ({"copies": {"dc9": 1}}, UnknownOption, "data centre"),
        ({"slots": 1_000}, InvalidInput, "power of two"),
        ({"slots": 2**15}, InvalidInput, "power of two"),
        ({"topology": ["a"]}, InvalidInput, "topology"),
        ({"urls": {"a": "sqlite:////a.db"}}, InvalidInput, "no URL of b"),
        ({"urls": {"x": "sqlite:////a.db"}}, UnknownNode, "'x'"),
        ({"urls": dict.fromkeys("abc", "sqlite:////a.db")}, InvalidInput, "another one than that of a"),
        ({"urls": dict.fromkeys("abc", "mysql://a")}, UnknownOption, "scheme"),
        ({"urls": dict.fromkeys("abc", "sqlite://")}, InvalidInput, "names a path"),
        ({"gc_grace": timedelta(0)}, InvalidInput, "gc_grace"),
    ],
)
def test_a_wrong_argument_of_a_creation_is_refused_before_any_effect(wrong, error, said, url, tmp_path):
    given = {"copies": 3, "slots": 16, "topology": RACKS, "urls": urls_of(tmp_path)} | wrong
    with pytest.raises(error, match=said):
        replicas.create(url, "flags", **given)
    assert [] == sorted(tmp_path.iterdir())


def test_a_control_store_without_fencing_tokens_is_refused(tmp_path):
    with pytest.raises(NotPromised):
        replicas.create("redis://localhost", "flags", copies=3, topology=RACKS, urls=urls_of(tmp_path))
    with pytest.raises(NotPromised):
        apportion.open_map("redis://localhost", "flags")


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"consistency": "most"}, UnknownOption),
        ({"read_from": "far"}, UnknownOption),
        ({"timeout": timedelta(0)}, InvalidInput),
        ({"timeout": 1}, InvalidInput),
        ({"read_repair": 1}, InvalidInput),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_opened(wrong, error):
    with pytest.raises(error):
        apportion.open_map("sqlite:////nowhere/control.db", "flags", **wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda flags: flags.put("k", "on"),
        lambda flags: flags.put("k", bytes(MOST_VALUE_BYTES + 1)),
        lambda flags: flags.put("k" * (MOST_KEY_BYTES + 1), b""),
        lambda flags: flags.put("", b""),
        lambda flags: flags.put(b"k", b""),
        lambda flags: flags.put("\ud800", b""),
        lambda flags: flags.put("k", b"", ttl=timedelta(0)),
        lambda flags: flags.put("k", b"", ttl=3),
        lambda flags: flags.put_many({"good": b"1", "bad": 2}),
        lambda flags: flags.put_many(["good"]),
        lambda flags: flags.get_many("good"),
        lambda flags: flags.get("good", consistency="local_quorum"),
    ],
)
def test_a_wrong_value_is_refused_before_any_effect(wrong, made):
    with sync.open_map(made, "flags") as flags:
        with pytest.raises(InvalidInput):
            wrong(flags)
        assert flags.get("good") is None
        assert 1 == flags.statistics.gets


def test_a_map_that_does_not_exist_is_named(url, made):
    with pytest.raises(InvalidInput, match="'flag'"), sync.open_map(url, "flag"):
        pass


def test_a_table_without_a_list_for_each_slot_is_damaged(made):
    table, _ = table_of(made)
    published(made, replace(table, rows=table.rows[1:]))
    with pytest.raises(BadSnapshot, match="15 lists"), sync.open_map(made, "flags"):
        pass
