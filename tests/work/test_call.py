"""The arguments of a call are bound as Python binds them, on every path."""

import inspect
from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InvalidInput
from apportion.work.call import Call, Signature, new_ids
from apportion.work.lanes.keys import QueueKeys
from apportion.work.opened import _new_tasks


def _plain(a, b=2):
    return a, b


def _keyword(a, *, b, c=3):
    return a, b, c


def _positional(a, /, b=2):
    return a, b


def _many(a, *rest, **more):
    return a, rest, more


def _none():
    return ()


FUNCTIONS = (_plain, _keyword, _positional, _many, _none)


@given(
    function=st.sampled_from(FUNCTIONS),
    args=st.lists(st.integers(), max_size=4),
    kwargs=st.dictionaries(st.sampled_from("abcd"), st.integers(), max_size=4),
)
def test_a_call_fits_and_runs_as_python_binds_it(function, args, kwargs):
    signature = Signature(function)
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        with pytest.raises(InvalidInput):
            signature.encoded(tuple(args), kwargs)
        return
    came_args, came_kwargs = signature.decoded(signature.encoded(tuple(args), kwargs))
    assert function(*args, **kwargs) == function(*came_args, **came_kwargs)


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (b'{"b":1}', "missing"),
        (b'{"a":1,"z":1}', "takes no z"),
        (b"[1]", "do not fit"),
        (b'{"a":' + 50_000 * b"[", "do not fit"),
    ],
)
def test_arguments_that_do_not_fit_any_more_are_refused(stored, told):
    with pytest.raises(ValueError, match=told):
        Signature(_plain).decoded(stored)


def test_ids_of_new_tasks_are_random_uuids_and_no_two_are_equal():
    ids = new_ids(500)
    assert 500 == len(set(ids))
    assert ids == [UUID(each).hex for each in ids]
    assert {(4, RFC_4122)} == {(UUID(each).version, UUID(each).variant) for each in ids}
    assert [] == new_ids(0)


@pytest.mark.parametrize(
    "options",
    [
        [{}] * 3,
        [{"priority": 0, "delay": timedelta(seconds=3), "unique": "one", "on_duplicate": "replace"}] * 3,
        [{"key": "a", "on_dead": "block"}] * 3,
        [{"at": datetime(2026, 1, 2, tzinfo=UTC)}] * 2,
        [{}, {"priority": 1}, {}],
        [{"key": "a"}, {"key": "b"}],
        [{"expires": timedelta(seconds=7)}] * 2,
    ],
)
def test_the_tasks_of_calls_that_differ_little_are_those_of_each_call(options):
    keys = QueueKeys(queue="n/q", partitions=8, group_url="memory://g")
    made = [Call(name="send", arguments=b"%d" % place).options(**each) for place, each in enumerate(options)]
    tasks = _new_tasks("n/q", made, "trace", keys, now=5)
    assert [call.task(task.id, "n/q", 5, "trace", keys=keys) for call, task in zip(made, tasks, strict=True)] == tasks
    assert len(options) == len({task.id for task in tasks})
