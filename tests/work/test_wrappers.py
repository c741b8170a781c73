"""Wrappers of runs: each run is within them, their errors are its failures, and spans continue or link traces."""

import asyncio
import contextlib
import subprocess
import sys
import threading
from contextvars import ContextVar
from datetime import timedelta

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import apportion
from apportion.errors import InvalidInput
from apportion.work import AttemptDead, AttemptDone, AttemptEnded, AttemptFailed, AttemptReleased
from apportion.work.facade import Queue

SPANS = InMemorySpanExporter()


@pytest.fixture
def queue(tmp_path):
    return Queue(f"memory://q{tmp_path.name}", "mail")


def drained(queue, *calls, ahead=timedelta(0)):
    """Enqueue calls, run all that are due, and return the ends."""
    ends = []

    async def _run():
        await queue.enqueue_many(calls)
        over = asyncio.Event()
        loop = asyncio.get_running_loop()

        def observe(event):
            if isinstance(event, AttemptEnded):
                ends.append(event)
                if len(ends) == len(calls):
                    loop.call_soon_threadsafe(over.set)

        async with queue.worker(observer=observe):
            await over.wait()

    asyncio.run(asyncio.wait_for(_run(), 30))
    return ends


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_the_first_wrapper_is_outermost_and_async_ones_are_around_plain_ones(queue, kind):
    seen = []

    def note(what):
        seen.append((what, apportion.current_task().name))

    @queue.around
    def plain():
        note("plain in")
        yield
        note("plain out")

    @queue.around
    async def first():
        note("first in")
        yield
        note("first out")

    @queue.around
    async def second():
        note("second in")
        yield
        note("second out")

    if kind == "async":

        @queue.task()
        async def run() -> None:
            note("run")
    else:

        @queue.task()
        def run() -> None:
            note("run")

    assert [AttemptDone] == [type(each) for each in drained(queue, run.call())]
    expected = ["first in", "second in", "plain in", "run", "plain out", "second out", "first out"]
    assert [(each, "run") for each in expected] == seen


def test_a_plain_wrapper_runs_in_the_thread_of_the_function_and_an_async_one_on_the_loop(queue):
    threads = {}

    @queue.around
    def connect():
        threads["plain"] = threading.current_thread()
        yield

    @queue.around
    async def outer():
        threads["async"] = threading.current_thread()
        yield

    @queue.task()
    def run() -> None:
        threads["run"] = threading.current_thread()

    drained(queue, run.call())
    assert threads["plain"] is threads["run"] is not threads["async"]
    assert threading.current_thread() is threads["async"]


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_run_sees_the_context_variables_of_a_wrapper(queue, kind):
    tenant, seen = ContextVar("tenant", default="none"), []

    @queue.around
    async def of_a_tenant():
        tenant.set("acme")
        yield

    if kind == "async":

        @queue.task()
        async def run() -> None:
            seen.append(tenant.get())
    else:

        @queue.task()
        def run() -> None:
            seen.append(tenant.get())

    drained(queue, run.call())
    assert ["acme"] == seen


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("is_async", [True, False])
def test_an_error_of_a_wrapper_is_the_failure_of_the_run(queue, place, is_async):
    error, runs = ValueError("planted"), []

    def steps():
        if place == "before":
            raise error
        yield
        raise error

    async def async_steps():
        for _ in steps():
            yield

    queue.around(async_steps if is_async else steps)

    @queue.task(first_delay=timedelta(hours=1))
    def run() -> None:
        runs.append(1)

    (end,) = drained(queue, run.call())
    assert (AttemptFailed, error) == (type(end), end.error)
    assert [1] * (place == "after") == runs


def test_a_wrapper_sees_the_error_of_the_run_and_may_change_it(queue):
    seen = []

    @queue.around
    async def translate():
        try:
            yield
        except KeyError as error:
            seen.append(error.args)
            raise apportion.GiveUp("no such customer") from error

    @queue.task()
    def run() -> None:
        raise KeyError("bob")

    (end,) = drained(queue, run.call())
    assert (AttemptDead, "GiveUp: no such customer", [("bob",)]) == (type(end), end.reason, seen)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_wrapper_that_catches_the_error_makes_the_run_done(queue, is_async):
    if is_async:

        @queue.around
        async def calm():
            with contextlib.suppress(ValueError):
                yield
    else:

        @queue.around
        def calm():
            with contextlib.suppress(ValueError):
                yield

    @queue.task()
    def run() -> None:
        raise ValueError

    assert [AttemptDone] == [type(each) for each in drained(queue, run.call())]


@pytest.mark.parametrize(
    "wrapper",
    [lambda: None, 7, print, asyncio.sleep],
    ids=["a function", "an int", "a builtin", "a coroutine function"],
)
def test_an_object_that_is_no_generator_function_is_refused(queue, wrapper):
    with pytest.raises(InvalidInput, match="around"):
        queue.around(wrapper)


def test_a_wrapper_that_wants_arguments_is_refused(queue):
    def wrapper(task):
        yield

    with pytest.raises(InvalidInput, match="parameters of around"):
        queue.around(wrapper)


@pytest.fixture
def tracer(monkeypatch):
    """Return a tracer of a provider that keeps its spans, for this test alone."""
    SPANS.clear()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(SPANS))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return provider.get_tracer("test")


def spans(name):
    return [each for each in SPANS.get_finished_spans() if each.name == name]


def test_the_first_attempt_continues_the_trace_and_a_retry_is_linked_to_it(queue, tracer):
    @queue.task(failures=2, first_delay=timedelta(milliseconds=1))
    async def fail() -> None:
        with tracer.start_as_current_span("inner"):
            raise ValueError("planted")

    async def _run():
        with tracer.start_as_current_span("request"):
            handle = await queue.enqueue(fail.call())
        async with queue.worker():
            while await handle.state() != "dead":
                await asyncio.sleep(0.005)

    asyncio.run(asyncio.wait_for(_run(), 30))
    (request,), (first, retry), inner = spans("request"), spans("process fail"), spans("inner")
    assert request.context.span_id == first.parent.span_id
    assert request.context.trace_id == first.context.trace_id != retry.context.trace_id
    assert retry.parent is None
    assert ([], [request.context.span_id]) == ([*first.links], [each.context.span_id for each in retry.links])
    assert [first.context.span_id, retry.context.span_id] == [each.parent.span_id for each in inner]
    assert [1, 2] == [each.attributes["apportion.task.attempt"] for each in (first, retry)]
    assert "ERROR" == first.status.status_code.name
    assert ["exception"] == [each.name for each in first.events]


def test_a_snoozed_run_is_no_error_of_its_span(queue, tracer):
    @queue.task()
    def snooze() -> None:
        raise apportion.Snooze(after=timedelta(hours=1))

    assert [AttemptReleased] == [type(each) for each in drained(queue, snooze.call())]
    assert ["UNSET"] == [each.status.status_code.name for each in spans("process snooze")]


def test_a_task_enqueued_without_a_span_begins_a_trace(queue, tracer):
    @queue.task()
    def run() -> None: ...

    drained(queue, run.call())
    (span,) = spans("process run")
    assert (None, ()) == (span.parent, tuple(span.links))


@pytest.mark.parametrize("provider", [trace.ProxyTracerProvider(), trace.NoOpTracerProvider()])
@pytest.mark.parametrize("enqueued", ["", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"])
def test_without_a_provider_only_the_run_of_a_traced_task_is_in_its_trace(queue, monkeypatch, provider, enqueued):
    made, traces = [], []
    tracer = trace.get_tracer
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "get_tracer", lambda *names: made.append(names) or tracer(*names))
    monkeypatch.setattr("apportion.work.facade.traceparent", lambda: enqueued)

    @queue.task()
    def run() -> None:
        traces.append(trace.get_current_span().get_span_context().trace_id)

    assert [AttemptDone] == [type(each) for each in drained(queue, run.call())]
    assert ([int(enqueued[3:35] or "0", 16)], bool(enqueued)) == (traces, bool(made))


def test_a_program_that_does_not_trace_does_not_load_the_api(tmp_path):
    code = f"""
import asyncio, sys, apportion
queue = apportion.Queue("sqlite:///{tmp_path}/work.db", "mail")
@queue.task()
def run() -> None: ...
async def main():
    await queue.enqueue(run.call())
    print(await queue.drain())
asyncio.run(main())
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert "Drained(done=1, failed=0, dead=0)\n[]\n" == done.stdout
