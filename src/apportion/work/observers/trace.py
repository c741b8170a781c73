"""Trace: the context of a trace in the row of a task, and a span for each run, by OpenTelemetry's API.

Promises: the first attempt continues the trace of the program that enqueued the task. Each later attempt begins its own
trace, with a link to that trace. Attempts may be hours apart, and a trace should end.
Refuses: to import OpenTelemetry for a program that has not imported its API. Such a program has no spans, and no cost.
Without a provider of spans, a task that was enqueued outside of a trace has no span.
Source: https://www.w3.org/TR/trace-context/ and OpenTelemetry's conventions for spans of messaging.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from apportion.stores.task_values import Claim
from apportion.work.retry_budget import Snooze

_API = "opentelemetry.trace"


def traceparent() -> str:
    """Return the context of the current span as a W3C traceparent; "" without a span."""
    if _API not in sys.modules:
        return ""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - optional

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent", "")


def span(claim: Claim) -> AbstractContextManager[None]:
    """Return a block that has a span for the run of a task. An error of the block is an error of the span.

    Without a provider of spans, the run of a task that was enqueued outside of a trace has no span.
    """
    return _span(claim) if _API in sys.modules and (claim.trace or _has_provider()) else nullcontext()


def _has_provider() -> bool:
    """Whether the program has set up tracing. A library may import the API on its own."""
    from opentelemetry import trace  # noqa: PLC0415 - optional

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)


@contextmanager
def _span(claim: Claim) -> Iterator[None]:
    from opentelemetry import context, trace  # noqa: PLC0415 - optional
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    enqueued = TraceContextTextMapPropagator().extract({"traceparent": claim.trace}, context.Context())
    is_first, of = claim.attempt == 1, trace.get_current_span(enqueued).get_span_context()
    links = [] if is_first or not of.is_valid else [trace.Link(of)]
    later: Snooze | None = None
    with trace.get_tracer("apportion").start_as_current_span(
        f"process {claim.name}",
        context=enqueued if is_first else context.Context(),
        kind=trace.SpanKind.CONSUMER,
        links=links,
        attributes=_attributes(claim),
    ):
        try:
            yield
        except Snooze as snooze:  # a snooze is no failure, so the span gets no error
            later = snooze
    if later is not None:
        raise later


def _attributes(claim: Claim) -> dict[str, str | int]:
    return {
        "messaging.system": "apportion",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": claim.queue,
        "messaging.message.id": claim.task,
        "apportion.task.name": claim.name,
        "apportion.task.attempt": claim.attempt,
    }
