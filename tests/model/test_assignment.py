"""An assignment names the owners of each partition and cannot be invalid."""

import pickle
from array import array

import pytest

from apportion import Assignment, Node, Topology
from apportion.errors import InvalidInput
from apportion.model.assignment import Rule
from apportion.model.rows import NOBODY, Rows

AB = Topology(["b", "a"])


def test_a_partition_is_asked_for_by_number_or_name():
    assignment = Assignment(topology=AB, rows=((0,), (1, 0)))
    assert (("a",), ("a",)) == (assignment[0], assignment["0"])
    assert (("b", "a"), ("b", "a")) == (assignment[1], assignment["1"])


@pytest.mark.parametrize(
    "partition", [-1, 2, "2", "-1", "01", "", "a", None, 1.0, True, b"0", [0], pytest.param(10**5000, id="long")]
)
def test_a_partition_that_is_not_there_is_refused(partition):
    with pytest.raises(InvalidInput, match="partition is"):
        Assignment(topology=AB, rows=((0,), (1,)))[partition]


def test_preference_lists_come_in_order_of_number_and_not_of_name():
    assignment = Assignment(topology=AB, rows=((0,),) * 11)
    assert [str(number) for number in range(11)] == list(assignment.preference_lists)


def test_loads_count_every_copy_and_name_the_idle():
    assignment = Assignment(topology=AB.add("c"), rows=((0,), (1, 0), ()))
    assert {"a": 2, "b": 1, "c": 0} == assignment.loads


@pytest.mark.parametrize("rows", [(), ((2,),), ((-1,),), ((0, 0),), ((True,),), (("a",),), ((0.0,),)])
def test_an_invalid_assignment_cannot_exist(rows):
    with pytest.raises(InvalidInput, match=r"partitions|assignment row"):
        Assignment(topology=AB, rows=rows)


def test_an_assignment_survives_pickling_with_what_it_has_worked_out():
    assignment = Assignment(topology=AB, rows=((0,), (1, 0)))
    assert {"a": 2, "b": 1} == assignment.loads
    back = pickle.loads(pickle.dumps(assignment))
    assert (assignment, hash(assignment), assignment.loads) == (back, hash(back), back.loads)


def test_an_assignment_shows_its_size_and_not_its_rows():
    assert f"Assignment(2 partitions over {AB!r})" == repr(Assignment(topology=AB, rows=((0,), (1,))))


def test_partitions_with_names_are_asked_for_by_them():
    assignment = Assignment(topology=AB, rows=((0,), (1, 0), (1,)), names=("orders", "users", "7"))
    assert (("b", "a"), ("b",)) == (assignment["users"], assignment[7])
    assert ["orders", "users", "7"] == list(assignment.preference_lists)
    with pytest.raises(InvalidInput, match="partition is 0, expected one of 3 ids"):
        assignment[0]


def test_a_negative_number_is_no_partition_whatever_the_names_are():
    with pytest.raises(InvalidInput, match="partition is -1"):
        Assignment(topology=AB, rows=((0,),), names=("-1",))[-1]


def test_preference_lists_are_made_when_asked_for():
    lists = Assignment(topology=AB, rows=((0,), (1, 0))).preference_lists
    assert {"0": ("a",), "1": ("b", "a")} == lists == dict(lists)
    assert ("2" in lists, "1" in lists, None in lists, lists.get("01")) == (False, True, False, None)
    with pytest.raises(KeyError):
        lists["2"]


def test_many_preference_lists_are_counted_when_shown():
    assert "<lists of 9 partitions>" == repr(Assignment(topology=AB, rows=((0,),) * 9).preference_lists)
    assert "{'0': ('a',)}" == repr(Assignment(topology=AB, rows=((0,),)).preference_lists)


def test_home_is_where_the_rows_are_unless_it_is_said():
    assert ((0,),) == Assignment(topology=AB, rows=((0,),)).home_rows
    away = Assignment(topology=AB, rows=((0,),), home=((1,),), down=("b",))
    assert (((1,),), ((0,),), ("b",)) == (away.home_rows, away.rows, away.down)


def test_sizes_are_asked_for_by_partition():
    assignment = Assignment(topology=AB, rows=((0,), (1,)), sizes=(5, 0))
    assert (5, 0) == (assignment.size("0"), assignment.size(1))
    assert Assignment(topology=AB, rows=((0,),)).size(0) is None
    with pytest.raises(InvalidInput, match="partition is 2"):
        assignment.size(2)


def test_leader_loads_count_the_first_of_each_list():
    assert {"a": 0, "b": 2} == Assignment(topology=AB, rows=((1, 0), (1,), ())).leader_loads


def test_partitions_that_are_not_spread_as_their_rule_asks_are_degraded():
    zoned = Topology([Node("a", zone=("eu", "r1")), Node("b", zone=("eu", "r2")), Node("c", zone=("us", "r1"))])
    rows = ((0, 1), (0, 2), (1,), ())
    rule = Rule(replicas=2, spread_level=0, spread="best-effort")
    degraded = Assignment(topology=zoned, rows=rows, rule=rule).degraded
    assert {"0": "2 replicas in 1 zones", "2": "1 of 2 replicas", "3": "0 of 2 replicas"} == degraded
    assert {"2", "3"} == set(Assignment(topology=zoned, rows=rows, rule=Rule(replicas=2)).degraded)
    assert {} == Assignment(topology=zoned, rows=rows).degraded


@pytest.mark.parametrize(
    "changed",
    [
        {"rows": ((0,), (1,))},
        {"rows": ((0,), (0, 1))},
        {"names": ("x", "y")},
        {"home": ((0,), (0,))},
        {"down": ("b",)},
        {"topology": AB.reweight("a", 2)},
    ],
)
def test_the_epoch_knows_nodes_names_home_who_is_down_and_the_order_of_owners(changed):
    facts = {"topology": AB, "rows": ((0,), (1, 0))}
    assert Assignment(**facts).epoch.digest != Assignment(**{**facts, **changed}).epoch.digest
    assert Assignment(**facts) != Assignment(**{**facts, **changed})


def test_the_epoch_does_not_tell_how_rows_are_laid_out():
    wide = Rows(array("I", [0, NOBODY, NOBODY, 1, 0, NOBODY]), width=3)
    tight, loose = (Assignment(topology=AB, rows=rows) for rows in (((0,), (1, 0)), wide))
    assert (tight, hash(tight)) == (loose, hash(loose))
    assert tight.epoch == loose.epoch


def test_moves_say_who_copies_from_whom():
    before = Assignment(topology=AB.add("c"), rows=((0, 1), (1,)))
    after = Assignment(topology=AB.add("c"), rows=((0, 2), (1, 0)))
    assert [("0", "b", "c"), ("1", "b", "a")] == sorted(
        (move.item, move.source or "b", move.target) for move in after.moves_from(before)
    )
    assert ["0", "1"] == [change.item for change in after.changes_from(before)]
    assert () == before.moves_from(before)


def test_an_assignment_with_everything_survives_pickling():
    assignment = Assignment(
        topology=AB, rows=((0,),), names=("x",), home=((1,),), down=("b",), sizes=(3,), rule=Rule(replicas=1)
    )
    back = pickle.loads(pickle.dumps(assignment))
    assert (assignment, assignment.epoch, hash(assignment)) == (back, back.epoch, hash(back))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("rows", None, "assignment rows is None"),
        ("rows", (([0],),), "assignment row is"),
        ("home", 3, "assignment rows is 3"),
        ("home", ((0,), (1,)), "home rows of the assignment is 2, expected 1"),
        ("home", ((2,),), "assignment row is"),
        ("names", ["a"], "names of the assignment is a list, expected a tuple"),
        ("names", "a", "names of the assignment is 'a', expected a tuple"),
        ("names", ("a", "b"), "names of the assignment is 2, expected 1"),
        ("names", ("",), "partition id is ''"),
        ("down", "a", "down of the assignment is 'a', expected a tuple"),
        ("down", ("z",), "node id is 'z'"),
        ("sizes", [1], "sizes of the assignment is a list"),
        ("sizes", (-1,), "size of a partition is -1"),
        ("sizes", (2**63,), "size of a partition is 9223372036854775808"),
        ("sizes", (True,), "size of a partition is True"),
        ("rule", "strict", "rule of the assignment is 'strict', expected a Rule"),
        ("topology", ["a"], "topology is a list"),
    ],
)
def test_each_field_is_checked(field, value, message):
    with pytest.raises(InvalidInput, match=message):
        Assignment(**{"topology": AB, "rows": ((0,),), field: value})


def test_a_name_twice_among_very_many_is_found_at_once():
    names = (*map(str, range(200_000)), "199999")
    with pytest.raises(InvalidInput, match="partition id is '199999', expected each once"):
        Assignment(topology=AB, rows=((0,),) * 200_001, names=names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replicas": 0}, "replicas is 0"),
        ({"replicas": -1}, "replicas is -1"),
        ({"replicas": True}, "replicas is True"),
        ({"replicas": 1.0}, "replicas is 1.0"),
        ({"replicas": 1, "spread_level": -1}, "spread_level is -1"),
        ({"replicas": 1, "spread_level": 8}, r"spread_level is 8, expected an int in 0 \.\. 7"),
        ({"replicas": 1, "spread_level": True}, "spread_level is True"),
        ({"replicas": 1, "spread": "Strict"}, "spread is 'Strict'.*\n.*'strict'"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        Rule(**options)


def test_an_assignment_has_partitions_and_is_no_list_of_nodes():
    assignment = Assignment(topology=AB, rows=((0,), (1, 0)), names=("p", "q"))
    assert (2, True, False) == (len(assignment), "p" in assignment, "r" in assignment)
    with pytest.raises(TypeError, match="not iterable"):
        list(assignment)


@pytest.mark.parametrize("ask", [lambda a: a.changes_from(5), lambda a: a.moves_from(None), lambda a: a.size("r")])
def test_what_an_assignment_cannot_answer_is_refused_by_name(ask):
    with pytest.raises(InvalidInput, match=r"before is|partition is"):
        ask(Assignment(topology=AB, rows=((0,), (1, 0))))
