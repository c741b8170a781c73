"""An assignment names the owners of each partition and cannot be invalid."""

import pickle

import pytest

from apportion import Assignment, Topology
from apportion.errors import InvalidInput

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
