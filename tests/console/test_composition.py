"""Placements from options: whose hash function can be chosen, and what nodes alone cannot make."""

import json

import pytest

from apportion import Topology, hashers, placement
from apportion.balance.succession import succeed
from apportion.console.options.composition import compose
from apportion.errors import CannotPlace, InvalidInput
from apportion.placement import catalog
from tests.console.running import refused, run, written

NODES = Topology(["a", "b", "c"])
KEYS = [f"k{number}" for number in range(300)]
SPECS = [placement.get(name) for name in placement.names()]
EXPLICIT = [spec.name for spec in SPECS if spec.takes == "explicit"]
OTHERS = [spec for spec in SPECS if spec.takes != "explicit"]


@pytest.mark.parametrize("spec", OTHERS, ids=lambda spec: spec.name)
def test_a_hash_function_is_taken_or_refused_as_the_spec_says(spec):
    if spec.takes_hasher:
        assert "md5" == compose(spec.name, NODES, hasher="md5").hasher.label
        return
    assert set(NODES.ids) == set(compose(spec.name, NODES).route_many(KEYS))
    for asked in ("md5", "xxh3-64", hashers.get()):
        with pytest.raises(
            InvalidInput, match=rf"--hasher is '\S+', expected no value: {spec.name} prescribes its own"
        ):
            compose(spec.name, NODES, hasher=asked)


def test_both_kinds_of_hashing_are_in_the_catalog():
    assert {"ring", "slots", "modulo"} <= {spec.name for spec in SPECS if spec.takes_hasher}
    own = {"envoy", "envoy_maglev", "kafka", "ketama", "nginx", "redis_slots"}
    assert own <= {spec.name for spec in SPECS if not spec.takes_hasher}


@pytest.mark.parametrize("name", EXPLICIT)
def test_what_nodes_alone_do_not_make_is_refused_with_the_way_out(name):
    with pytest.raises(
        InvalidInput, match=f"--placement is {name!r}, expected a placement that needs only nodes"
    ) as caught:
        compose(name, NODES)
    assert "Pick another --placement" in caught.value.hint


@pytest.mark.parametrize("spec", OTHERS, ids=lambda spec: spec.name)
def test_the_next_placement_is_of_the_same_kind_and_hashes_alike(spec):
    try:
        built = compose(spec.name, NODES)
        following = succeed(built, NODES.add("d"))
    except CannotPlace:
        pytest.skip(f"{spec.name} cannot follow this change")
    assert (type(built), built.hasher) == (type(following), following.hasher)
    assert {"a", "b", "c", "d"} == set(following.topology.ids)


@pytest.mark.slow
def test_compare_measures_with_the_hash_function_asked_for_where_there_is_a_choice(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "names", lambda: ("jump", "ketama", "ranges"))
    written(tmp_path, "keys", "".join(f"k{number}\n" for number in range(500)))
    options = ("compare", "--nodes", "a,b,c", "--keys", "keys")
    rows = []
    for name in ("xxh3-64", "md5"):
        document = json.loads(run(*options, "--hasher", name, "--json", folder=tmp_path).stdout)
        rows.append({row["placement"]: row for row in document["placements"]})
    assert [False, True] == [rows[0][name]["own_hash"] for name in ("jump", "ketama")]
    assert rows[0]["jump"]["variation"] != rows[1]["jump"]["variation"]
    assert rows[0]["ketama"]["variation"] == rows[1]["ketama"]["variation"]
    printed = run(*options, "--hasher", "md5", folder=tmp_path).stdout.decode()
    assert "With a hash function of their own, not md5: ketama." in printed
    assert "ranges: built from a list of owners, which nodes and keys do not give." in printed


@pytest.mark.parametrize("name", EXPLICIT)
def test_a_command_refuses_a_placement_that_nodes_do_not_make(name, tmp_path):
    assert "Pick another --placement" in refused(
        run("route", "--nodes", "a,b", "--placement", name, "k", folder=tmp_path)
    )


@pytest.mark.parametrize("hasher", ["md5", "xxh3-64", "siphash-2-4"])
def test_a_command_refuses_a_hash_function_that_would_not_be_used(hasher, tmp_path):
    options = ("route", "--nodes", "a,b", "--placement", "ketama", "k")
    written(tmp_path, "secret", b"0123456789abcdef")
    secret = ("--hasher-key-file", "secret") if hasher == "siphash-2-4" else ()
    assert "prescribes its own" in refused(run(*options, "--hasher", hasher, *secret, folder=tmp_path))
    assert 0 == run(*options, folder=tmp_path).returncode
