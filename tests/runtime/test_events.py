"""The stream of events: every observer gets every event in order, and one that raises costs a log line."""

import functools
import json
import logging

import pytest

from apportion.errors import InvalidInput
from apportion.runtime.events import (
    Delayed,
    Departed,
    EventStream,
    Gained,
    SessionBegan,
    SessionEnded,
    checked_observer,
)


class At:
    """A clock that stands still."""

    def __init__(self, now):
        self._now = now

    def elapsed(self):
        return self._now


def stream(*observers):
    return EventStream(*observers, group="g", member_id="a", clock=At(7.5))


def test_every_observer_gets_every_event_in_order_with_the_member_and_the_time():
    first, second = [], []
    events = stream(first.append, second.append)
    events.tell(SessionBegan())
    events.tell(Gained(partition=3, epoch=1, why="nobody owned it"))
    who = {"group": "g", "member_id": "a", "at": 7.5}
    assert [SessionBegan(**who), Gained(**who, partition=3, epoch=1, why="nobody owned it")] == first == second


@pytest.mark.parametrize("error", [ValueError("planted"), SystemExit(3)], ids=lambda error: type(error).__name__)
def test_an_observer_that_raises_costs_one_log_line_per_event_and_no_other_observer_misses_it(error, caplog):
    def broken(event):
        raise error

    heard = []
    events = stream(broken, heard.append)
    events.tell(SessionBegan())
    events.tell(Departed())
    assert ["SessionBegan", "Departed"] == [type(each).__name__ for each in heard]
    assert ["apportion.group", "apportion.group"] == [each.name for each in caplog.records]
    assert [logging.ERROR, logging.ERROR] == [each.levelno for each in caplog.records]
    assert caplog.messages[0].startswith("g: observer <function")
    assert caplog.messages[0].endswith("failed on SessionBegan")
    assert error is caplog.records[0].exc_info[1]


def test_ctrl_c_within_an_observer_is_no_error_of_the_observer():
    def interrupted(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stream(interrupted).tell(Departed())


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        (Departed(), {"event": "Departed"}),
        (Delayed(partition=3, deaths=4, seconds=None), {"partition": 3, "deaths": 4, "seconds": None}),
        (SessionEnded(error=ValueError("planted"), is_final=False), {"error": "planted", "is_final": False}),
        (SessionEnded(error=None, is_final=True), {"error": None, "is_final": True}),
    ],
    ids=["no fields", "numbers", "an error", "no error"],
)
def test_an_event_can_be_written_as_json(event, fields):
    heard = []
    stream(heard.append).tell(event)
    written = json.loads(json.dumps(heard[0].as_dict()))
    assert {"group": "g", "member_id": "a", "at": 7.5, "event": type(event).__name__} | fields == written


async def asynchronous(event):
    pass


class AsyncObserver:
    async def __call__(self, event):
        pass


@pytest.mark.parametrize(
    "observer",
    [7, "print", asynchronous, AsyncObserver(), functools.partial(asynchronous), lambda: None, lambda one, two: None],
    ids=["int", "str", "async def", "async call", "async partial", "too few", "too many"],
)
def test_an_object_that_cannot_be_called_with_one_event_is_refused_with_an_example(observer):
    with pytest.raises(InvalidInput, match="observer") as caught:
        checked_observer(observer)
    assert "Write open_group(…, observer=log) with: def log(event): ..." == caught.value.hint


@pytest.mark.parametrize("observer", [None, print, [].append, lambda event: None, lambda event, more=1: None])
def test_any_function_of_one_event_is_an_observer(observer):
    assert observer is checked_observer(observer)


def test_an_observer_that_raises_costs_no_event_though_a_log_handler_raises_too(monkeypatch):
    def _broken(*_):
        raise ZeroDivisionError

    heard = []
    monkeypatch.setattr(logging.Logger, "handle", _broken)
    stream(_broken, heard.append).tell(SessionBegan())
    assert 1 == len(heard)
