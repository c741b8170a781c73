"""Call: one call of a task function, with its arguments and options, checked and encoded when it is made.

Promises: the arguments of a call fit the signature of the function, and their bytes decode to equal values.
Refuses: values that JSON cannot hold, or that decode to another value; arguments of more than a mebibyte.
"""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, get_type_hints

from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.stores.lanes.values import check_key
from apportion.stores.task_rows import clean
from apportion.stores.task_values import LANES, MOST_TIME, Duplicate, NewTask, OnDead
from apportion.work.json_values import as_json, as_kind, of_json
from apportion.work.lanes.keys import QueueKeys, lane_of
from apportion.work.retry_budget import length, milliseconds

CODEC = "json"
MOST_BYTES = 2**20
DEFAULT_PRIORITY = 2
_VARIANT = dict(zip("0123456789abcdef", 4 * "89ab", strict=True))
_NO_OPTIONS = (None,) * 8
_IN_ORDER = "The tasks of a key run in the order in which they were enqueued."


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a task function. `send.call("ann")` makes it; `options` returns a copy with other options."""

    name: str
    arguments: bytes
    priority: int = DEFAULT_PRIORITY
    delay: timedelta | None = None
    at: datetime | None = None
    expires: timedelta | None = None
    unique: str | None = None
    on_duplicate: Duplicate = "keep"
    deaths: int | None = 5
    key: str | None = None
    on_dead: OnDead | None = None

    def options(
        self,
        *,
        delay: timedelta | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        expires: timedelta | None = None,
        unique: str | None = None,
        on_duplicate: Duplicate | None = None,
        key: str | None = None,
        on_dead: OnDead | None = None,
    ) -> "Call":
        """Return this call with other options; None leaves an option as it is.

        - `delay` or `at`: the shortest wait (a timedelta), or the earliest time (a datetime with a zone).
        - `priority`: 0 to 3; tasks of priority 0 are claimed first. Default: 2.
        - `expires`: a timedelta above `delay`. A task that a worker claims only after this time is cancelled and does
          not run.
        - `unique`: a name. While a task of that name is open, a second one is not added (`on_duplicate="keep"`), or
          replaces the first ("replace").
        - `key`: the tasks of one key run one at a time, in the order in which they were enqueued. They run in the same
          worker as long as no worker joins or leaves. A task with a key has no priority, `delay` or `at`. The queue
          needs `partitions`.
        - `on_dead`: the effect on the next task of the key if this task ends as dead. "skip" lets the next task run.
          "block" lets it wait until this task is redriven or cancelled. Default: "skip".
        """
        given = (delay, at, priority, expires, unique, on_duplicate, key, on_dead)
        call = (
            self
            if given == _NO_OPTIONS
            else Call(
                name=self.name,
                arguments=self.arguments,
                deaths=self.deaths,
                delay=self.delay if delay is None else delay,
                at=self.at if at is None else at,
                priority=self.priority if priority is None else priority,
                expires=self.expires if expires is None else expires,
                unique=self.unique if unique is None else unique,
                on_duplicate=self.on_duplicate if on_duplicate is None else on_duplicate,
                key=self.key if key is None else key,
                on_dead=self.on_dead if on_dead is None else on_dead,
            )
        )
        call.check()
        return call

    def check(self) -> None:
        """Raise `InvalidInput` for an option that no task can have."""
        check_priority(self.priority)
        for field, value in (("delay", self.delay), ("expires", self.expires)):
            if value is not None:
                length(field, value)
        if self.at is not None and (not isinstance(self.at, datetime) or self.at.tzinfo is None):
            hint = "Write at=datetime(2026, 11, 24, 9, tzinfo=UTC)"
            raise InvalidInput("at", self.at, "a datetime with a time zone", hint)
        if self.at is not None and _milliseconds_of(self.at) > MOST_TIME:
            raise InvalidInput("at", self.at, "a time before the year 10000", "No store keeps a later time.")
        if self.at is not None and self.delay is not None:
            raise InvalidInput("delay", str(self.delay), "no delay when `at` is given", "Give one of the two.")
        if self.expires is not None and milliseconds(self.expires) <= milliseconds(self.delay or timedelta(0)):
            expected = "a time above 0 and above the delay, else the task could never run"
            hint = "Write expires=timedelta(seconds=3600), or leave it out."
            raise InvalidInput("expires", str(self.expires), expected, hint)
        if self.unique is not None and not _is_name(self.unique):
            raise InvalidInput("unique", self.unique, "a str of 1 to 200 characters", "Write unique='report/7'")
        if self.on_duplicate not in ("keep", "replace"):
            raise InvalidInput("on_duplicate", self.on_duplicate, "'keep' or 'replace'", "The default is 'keep'.")
        if self.on_duplicate == "replace" and self.unique is None:
            raise InvalidInput("on_duplicate", "replace", "a unique name beside it", "Write unique='report/7'")
        self._check_key()

    def _check_key(self) -> None:
        if self.on_dead not in (None, "skip", "block"):
            raise InvalidInput("on_dead", self.on_dead, "'skip' or 'block'", "The default is 'skip'.")
        if self.key is None:
            if self.on_dead is not None:
                raise InvalidInput("on_dead", self.on_dead, "no value without a key", "Write key='tenant-42'.")
            return
        check_key(self.key)
        for field, value in (("delay", self.delay), ("at", self.at)):
            if value is not None:
                hint = f"{_IN_ORDER} Enqueue the task when it is due."
                raise InvalidInput(field, str(value), "no value with a key", hint)
        if self.priority != DEFAULT_PRIORITY:
            raise InvalidInput("priority", self.priority, "no value with a key", f"{_IN_ORDER} Leave the priority out.")

    def task(self, task_id: str, queue: str, now_ms: int, trace: str = "", *, keys: QueueKeys | None = None) -> NewTask:
        """Return this call as a task of a queue; `InvalidInput` for a key on a queue without partitions.

        Only `expires` needs `now_ms`, the time of the store. `trace` is a traceparent.
        """
        return NewTask(
            id=task_id,
            queue=queue,
            name=self.name,
            arguments=self.arguments,
            codec=CODEC,
            lane=self.priority if self.key is None else lane_of(self.key, keys),
            delay_ms=0 if self.delay is None else milliseconds(self.delay),
            due_at=None if self.at is None else _milliseconds_of(self.at),
            expires_at=None if self.expires is None else now_ms + milliseconds(self.expires),
            unique=self.unique,
            on_duplicate=self.on_duplicate,
            most_deaths=self.deaths,
            trace=trace,
            key=self.key,
            on_dead=self.on_dead or "skip",
            partitions=None if self.key is None or keys is None else keys.partitions,
        )


def checked_call(call: Call) -> Call:
    """Return a call; `InvalidInput` for any other value."""
    if not isinstance(call, Call):
        hint = "Write queue.enqueue(send.call(...)); send(...) itself runs the function here."
        raise InvalidInput("call", call, "a call of a task function", hint)
    return call


def checked_calls(calls: Iterable[Call]) -> list[Call]:
    """Return calls as a list; `InvalidInput` for any other value."""
    if not isinstance(calls, Iterable):
        hint = "Write queue.enqueue_many([send.call(...), ...]); for one call, write queue.enqueue(send.call(...))."
        raise InvalidInput("calls", calls, "a list of calls", hint)
    return list(map(checked_call, calls))


class Signature:
    """The parameters of a task function, and the types to which their values are decoded."""

    def __init__(self, function: Callable[..., object]) -> None:
        signature = inspect.signature(function)
        self._function, self._signature = function, signature
        self._hints: Mapping[str, Any] | None = None
        self._kinds: dict[str, Any] = {}
        parameters = signature.parameters.values()
        self._is_plain = all(each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) for each in parameters)
        self._in_order = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        self._names = signature.parameters.keys()
        self._needed = {each.name for each in parameters if each.default is each.empty}

    def encoded(self, args: tuple[object, ...], kwargs: dict[str, object]) -> bytes:
        """Return the arguments of a call as bytes; `InvalidInput` if the bytes would not decode to equal values."""
        name = self._function.__name__
        try:
            given = self._given(args, kwargs)
        except TypeError as error:
            expected = f"those of {name}{self._signature}"
            hint = "Nothing was enqueued. Write the call as the signature says."
            raise InvalidInput(f"arguments of {name}", str(error), expected, hint) from error
        try:
            data = as_json(given)
            back = self._converted(data)
        except _Misfit as error:
            field, hint = f"{error.name} of {name}", "Nothing was enqueued. Pass a value of the annotated type."
            raise InvalidInput(field, given[error.name], f"the annotated type ({error.why})", hint) from error
        except (TypeError, ValueError, OverflowError, NameError, RecursionError) as error:
            hint = (
                "Pass JSON types, datetime, UUID, Decimal, bytes, enums, dataclasses or pydantic models, and annotate"
                " the parameter."
            )
            raise InvalidInput(f"arguments of {name}", str(error), "values that JSON can hold", hint) from error
        if back != given:
            wrong = next(each for each in given if back[each] != given[each])
            hint = "Annotate the parameter with its type, so that the worker gets the same value."
            raise InvalidInput(f"{wrong} of {name}", given[wrong], "a value that decodes to an equal value", hint)
        if len(data) > MOST_BYTES:
            hint = "Store the data, and pass its name."
            raise InvalidInput(f"arguments of {name}", f"{len(data)} bytes", f"at most {MOST_BYTES} bytes", hint)
        return data

    def decoded(self, data: bytes) -> tuple[tuple[object, ...], dict[str, object]]:
        """Return the arguments of a call from its bytes; `ValueError` if the function no longer takes them."""
        try:
            values = self._converted(data)
        except (TypeError, NameError, AttributeError, RecursionError) as error:
            raise ValueError(f"the arguments do not fit {self._function.__name__}: {error}") from error
        if self._fits(values):
            return (), values
        unknown = sorted(values.keys() - self._names)
        if unknown:
            raise ValueError(f"{self._function.__name__}{self._signature} takes no {', '.join(unknown)}")
        try:
            bound = self._signature.bind_partial()
            bound.arguments.update({name: values[name] for name in self._names if name in values})
            self._signature.bind(*bound.args, **bound.kwargs)
        except TypeError as error:
            raise ValueError(f"the arguments do not fit {self._function.__name__}{self._signature}: {error}") from error
        return bound.args, bound.kwargs

    def kept(self, result: object) -> bytes:
        """Return the result of a run as bytes; `TypeError` for a value that JSON cannot hold."""
        return as_json(result)

    def result(self, data: bytes) -> object:
        """Return a result from its bytes, in the annotated type."""
        kept: object = as_kind(of_json(data), self._known_hints().get("return", Any))
        return kept

    def _given(self, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        """Return the arguments by name; `TypeError` if they do not fit."""
        given = dict(zip(self._in_order, args, strict=False)) | kwargs
        if len(given) == len(args) + len(kwargs) and self._fits(given):
            return given
        return dict(self._signature.bind(*args, **kwargs).arguments)

    def _fits(self, given: Mapping[str, object]) -> bool:
        """Whether these arguments by name certainly fit. If not, `inspect` checks them, and takes ten times as long."""
        return self._is_plain and self._needed <= given.keys() <= self._names

    def _converted(self, data: bytes) -> dict[str, Any]:
        values = of_json(data)
        kinds, converted = self._kinds or self._known_kinds(), {}
        for name, value in values.items():
            kind = kinds.get(name, Any)
            try:
                converted[name] = value if type(value) is kind else as_kind(value, kind)
            except ValueError as error:
                raise _Misfit(name, f"{self._function.__name__}{self._signature}", f"{error}") from error
        return converted

    def _known_kinds(self) -> dict[str, Any]:
        """Return the types of the parameters by name."""
        hints, parameters = self._known_hints(), self._signature.parameters
        for name, parameter in parameters.items():
            kind: Any = hints.get(name, Any)
            if parameter.kind is parameter.VAR_POSITIONAL:
                kind = tuple[kind, ...]
            elif parameter.kind is parameter.VAR_KEYWORD:
                kind = dict[str, kind]
            self._kinds[name] = kind
        return self._kinds

    def _known_hints(self) -> Mapping[str, Any]:
        if self._hints is None:
            self._hints = get_type_hints(self._function)
        return self._hints


class _Misfit(ValueError):
    """An argument that does not have the annotated type of its parameter."""

    def __init__(self, name: str, function: str, why: str) -> None:
        super().__init__(f"{name} of {function}: {why}")
        self.name, self.why = name, why


def new_ids(count: int) -> list[str]:
    """Return ids for new tasks: random UUIDs in hexadecimal, as `uuid4` makes them, in a fifth of the time."""
    digits = os.urandom(16 * count).hex()
    given = [digits[begin : begin + 32] for begin in range(0, len(digits), 32)]
    return [f"{each[:12]}4{each[13:16]}{_VARIANT[each[16]]}{each[17:]}" for each in given]


def check_priority(priority: int) -> None:
    """Raise `InvalidInput` for a priority that no task can have."""
    if type(priority) is not int or priority not in LANES:
        raise InvalidInput("priority", priority, "an int in 0 .. 3", "0 is claimed first; 2 is the default.")


def priority_of(lane: int) -> int:
    """Return the priority of a task by its lane in the store: for a task without a key, the two numbers are equal.

    A task with a key has no priority, and gets the default.
    """
    return lane if lane in LANES else DEFAULT_PRIORITY


def _milliseconds_of(time: datetime) -> int:
    """Return a time in milliseconds since 1970."""
    return round(time.timestamp() * 1_000)


def _is_name(unique: object) -> bool:
    """Whether a value is a unique name that every store can keep."""
    return isinstance(unique, str) and 0 < len(unique) <= 200 and clean(unique) == unique
