"""Mistakes in Python, one a line: the call, its wrong value, and the next step that its message names.

A line is `call | beginning of the message | beginning of the next step`. The command line has the same test in
`tests/console/test_mistakes.py`.
"""

import asyncio
import datetime as dt
import pickle
import re

import numpy as np
import pandas as pd
import pytest

import apportion
from apportion import Node, Ring, Topology, balance, encode, plan
from apportion.errors import ApportionError
from apportion.placement import bounded, catalog, hotkeys, kafka, redis_slots
from apportion.placement.layouts import envoy, ketama

EXPECTATION = re.compile(
    r", expected |needs |wanted|would |which |until|in no list|are more than|made from epoch|cannot rotate|counted"
)

RING = Ring(["a", "b", "c"])
TOPOLOGY = Topology(["a", "b"])
NAMES = {name: getattr(apportion, name) for name in apportion.__all__}
NAMES |= {spec.build.__name__: spec.build for spec in map(catalog.get, catalog.names())}
NAMES |= {each.__name__.rpartition(".")[2]: each for each in (apportion, dt, envoy, hotkeys, kafka, ketama)}
NAMES |= {
    "Bounded": bounded.Bounded,
    "Loads": bounded.Loads,
    "PopularKeys": hotkeys.PopularKeys,
    "assignment": balance.optimal(12, 1, TOPOLOGY),
    "change": plan(RING, RING.on(RING.topology.add("d"))),
    "np": np,
    "pd": pd,
    "redis_slots": redis_slots,
    "ring": RING,
    "saved": encode(RING.table()),
    "table": RING.table(),
    "timedelta": dt.timedelta,
    "topology": TOPOLOGY,
    "zoned": Topology([Node("a", zone=("eu",)), Node("b", zone=("us",))]),
}


def mistakes(text):
    """Return a parameter for each line of a table."""
    lines = [line for line in text.strip().splitlines() if not line.startswith("# ")]
    assert len(set(lines)) == len(lines)
    return [pytest.param(*line.split(" | "), id=line.partition(" | ")[0]) for line in lines]


def check_refused(call, problem, hint, **more):
    """Assert that a call raises one error of ours with the value, an expectation and the next step."""
    with pytest.raises((ApportionError, AttributeError, TypeError)) as caught:
        _done(eval(call, NAMES | more))
    error = caught.value
    said, _, step = str(error).partition("\n")
    assert said.startswith(problem)
    assert step.startswith(hint)
    assert len(step.split()) >= 2, "a next step"
    if isinstance(error, ApportionError):
        assert EXPECTATION.search(said), "an expectation"
        assert str(error) == str(pickle.loads(pickle.dumps(error)))


def _done(result):
    if asyncio.iscoroutine(result):
        asyncio.run(result)
