"""What the environment says of a process: its weight and its labels."""

import pytest

from apportion.errors import InvalidInput
from apportion.runtime import environment


@pytest.mark.parametrize(
    ("said", "labels"),
    [
        ("", {}),
        ("disk=ssd", {"disk": "ssd"}),
        ("disk=ssd,rack=r1,", {"disk": "ssd", "rack": "r1"}),
        ("url=a=b,empty=", {"url": "a=b", "empty": ""}),
    ],
)
def test_labels_are_pairs_of_a_name_and_a_value(said, labels):
    assert labels == environment.labels({"APPORTION_LABELS": said})


@pytest.mark.parametrize("said", ["disk", "disk=ssd,rack", "=ssd"])
def test_labels_without_a_name_or_a_value_are_refused(said):
    with pytest.raises(InvalidInput, match=r"APPORTION_LABELS is .*, expected name=value,name=value"):
        environment.labels({"APPORTION_LABELS": said})


@pytest.mark.parametrize(
    ("environ", "weight"), [({}, 1.0), ({"APPORTION_WEIGHT": ""}, 1.0), ({"APPORTION_WEIGHT": "2.5"}, 2.5)]
)
def test_a_weight_is_one_where_none_is_given(environ, weight):
    assert weight == environment.weight(environ)


def test_a_weight_that_is_no_number_is_refused():
    with pytest.raises(InvalidInput, match="APPORTION_WEIGHT is 'heavy', expected a number"):
        environment.weight({"APPORTION_WEIGHT": "heavy"})
