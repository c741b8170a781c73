"""Values in binary form are those of the driver; a statement is prepared only where each value has a cast."""

import psycopg
import pytest
from psycopg.adapt import PyFormat, Transformer

from apportion.stores.postgres.prepared import prepared
from apportion.stores.postgres.schema import Schema
from apportion.stores.postgres.tasks import statements

VALUES = {
    "bigint": [0, 7, -1, 2**63 - 1, -(2**63)],
    "boolean": [True, False],
    "bytea": [b"", b"\0\xff"],
    "text": ["", "a", "ä€", "x" * 1_000],
    "bigint[]": [[2**40, -1], [2**40, None]],
    "boolean[]": [[True, False], [None, True]],
    "bytea[]": [[b"", b"ab"], [b"a" * 300, None]],
    "text[]": [["ab", "cd"], ["", "a"], ["ä", "ö"], ["x" * 127] * 2, ["x" * 128] * 2, [None, "a"], [""]],
}


def of_driver(value):
    [form] = Transformer().dump_sequence([value], [PyFormat.BINARY])
    return bytes(form)


@pytest.mark.parametrize(("cast", "value"), [(cast, value) for cast, values in VALUES.items() for value in values])
def test_a_value_has_the_form_that_the_driver_gives_it(cast, value):
    [form] = prepared(f"SELECT %s::{cast}".encode()).encoded([value])
    expected = of_driver(value)
    if cast == "bigint":
        assert value == int.from_bytes(expected, "big", signed=True)  # the driver sends as few bytes as will do
        assert value == int.from_bytes(form, "big", signed=True)
    else:
        assert expected == form


def test_an_empty_list_has_the_kind_of_its_cast_and_none_is_null():
    assert [b"\0" * 11 + b"\x14", None] == prepared(b"SELECT %s::bigint[], %b::text").encoded([[], None])


def test_each_place_gets_its_number_and_keeps_its_cast():
    statement = prepared(b"SELECT f(%s::bigint, %b::text[]) WHERE a = %s::boolean")
    assert b"SELECT f($1::bigint, $2::text[]) WHERE a = $3::boolean" == statement.text
    assert [1, 1, 1] == statement.formats


@pytest.mark.parametrize(
    "query",
    [b"SELECT 1", b"SELECT %s", b"SELECT %s::bigint, %s", b"SELECT %s::float8", b"SELECT %s::integer[]",
     b"SELECT %(a)s::text, %s::text", b"SELECT %s::text LIKE '%%'"],
)  # fmt: skip
def test_a_statement_without_a_cast_for_each_value_goes_through_a_cursor(query):
    assert prepared(query) is None


@pytest.mark.parametrize(("cast", "value"), [("bigint", 2**63), ("bigint[]", [2**63]), ("integer", 2**31),
                                             ("text", "\ud800"), ("text[]", ["\ud800"])])  # fmt: skip
def test_a_value_that_does_not_fit_its_cast_is_refused_as_the_driver_refuses_it(cast, value):
    with pytest.raises(psycopg.DataError):
        prepared(f"SELECT %s::{cast}".encode()).encoded([value])


@pytest.mark.parametrize("name", ["ENQUEUE", "ENQUEUE_ONE", "ENQUEUE_KEYED", "TURN", "KEYED_TURN", "BEGIN", "DONE"])
def test_the_hot_statements_of_tasks_travel_in_binary_form(name):
    assert prepared(Schema().fill(getattr(statements, name))) is not None
