"""`compare`, `demo`, `doctor` and `explain`: what they print is computed, and follows what they are given."""

import json

import pytest

from apportion.balance.comparison import evenness, fair_bound, movement
from apportion.console.doctor.command import KNOWN_HASHES
from apportion.model import Node, Topology
from apportion.placement import get, hashers, names
from tests.console.running import run, written


def test_doctor_knows_every_hash_function_and_is_content(tmp_path):
    assert set(hashers.names()) == set(KNOWN_HASHES)
    process = run("doctor", "--json", folder=tmp_path)
    assert (0, True) == (process.returncode, json.loads(process.stdout)["healthy"])


def test_doctor_finds_a_hash_function_that_went_wrong(monkeypatch, capsys):
    from apportion.console.doctor import command as doctor

    monkeypatch.setitem(doctor.KNOWN_HASHES, "md5", 1)
    assert 1 == doctor.doctor()
    assert "do not route with it" in capsys.readouterr().out


@pytest.mark.slow
def test_compare_measures_every_placement_or_says_why_not(tmp_path):
    written(tmp_path, "keys", "".join(f"k{number}\n" for number in range(2000)))
    document = json.loads(run("compare", "--nodes", "a,b,c", "--keys", "keys", "--json", folder=tmp_path).stdout)
    rows = {row["placement"]: row for row in document["placements"]}
    assert set(names()) == set(rows)
    measured = [name for name in rows if not rows[name]["refused"] and get(name).minimal_disruption]
    assert {"jump", "rendezvous", "ring", "slots"} <= set(measured)
    assert 0.0 == max(rows[name]["stray"] for name in measured)
    assert rows["modulo"]["stray"] > 0.3
    written(tmp_path, "t.toml", "[[node]]\nid='a'\nweight=2\n[[node]]\nid='b'\n[[node]]\nid='c'\n")
    unequal = json.loads(run("compare", "--topology", "t.toml", "--keys", "keys", "--json", folder=tmp_path).stdout)
    assert {"jump", "modulo", "ranges"} <= {row["placement"] for row in unequal["placements"] if row["refused"]}


@pytest.mark.slow
def test_compare_prints_no_progress_where_nobody_looks(tmp_path):
    written(tmp_path, "keys", "k1\nk2\n")
    assert b"" == run("compare", "--nodes", "a,b", "--keys", "keys", folder=tmp_path).stderr


@pytest.mark.slow
def test_other_keys_and_other_nodes_change_every_figure_of_the_tour(tmp_path):
    written(tmp_path, "keys", "".join(f"k{number}\n" for number in range(3000)))
    written(tmp_path, "t.toml", "[[node]]\nid='a'\nzone=['x']\n[[node]]\nid='b'\nweight=3\n[[node]]\nid='c'\n")
    shipped, keyed, both = (
        json.loads(run("tour", "--json", *options, folder=tmp_path).stdout)
        for options in ((), ("--keys", "keys"), ("--keys", "keys", "--topology", "t.toml"))
    )
    assert (69472, 3000, 3000) == (shipped["keys"], keyed["keys"], both["keys"])
    for one, other in ((shipped, keyed), (keyed, both)):
        figures = [[(m["name"], m["moved_ratio"], m["max_over_mean"]) for m in d["methods"]] for d in (one, other)]
        assert not set(figures[0]) & set(figures[1])


def test_the_tour_tells_its_story(tmp_path):
    out = run("tour", folder=tmp_path).stdout.decode()
    assert "69472 places of the world (GeoNames, CC BY 4.0) on 9 nodes in 3 data centres" in out
    assert "plan: " in out
    assert "uhashring 2" in out


def test_explain_says_why_in_text_and_in_json(tmp_path):
    text = run("explain", "k", "--nodes", "a,b,c", "--placement", "ring", folder=tmp_path).stdout.decode()
    assert "first token at or after the hash" in text
    document = json.loads(run("explain", "k", "--nodes", "a,b,c", "--json", folder=tmp_path).stdout)
    assert "slots" == document["placement"]
    assert int(document["range"][0], 16) <= int(document["hash"], 16) < int(document["range"][1], 16)


def test_measures_agree_with_counting_by_hand():
    old = Topology([Node("a"), Node("b", weight=3)])
    new = old.add("c").without("a")
    even = evenness(["a", "b", "b", "b"], old)
    assert (1.0, 0.0) == (even.max_over_mean, even.variation)
    moves = movement(["a", "b", "b", "b"], ["c", "b", "c", "b"], old, new)
    assert (0.5, 0.0) == (moves.moved_ratio, moves.stray_ratio)
    assert 0.25 == movement(["a", "b", "b", "b"], ["b", "b", "b", "b"], old, old.add("c")).stray_ratio
    assert 0.25 == fair_bound(old, new)
