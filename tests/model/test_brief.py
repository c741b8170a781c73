"""The `repr` of every public object has at most 200 characters, whatever it holds."""

import inspect
from dataclasses import fields, is_dataclass
from importlib import import_module

import pytest

from apportion import Assignment, Node, Ring, Topology, balance, encode, placement, plan
from apportion.errors.brief import MOST_CHARACTERS, brief
from apportion.model.certificate import Certificate, Proof
from apportion.placement.frozen import Frozen
from apportion.stores.task_values import Receipt
from tests.contracts.samples import start

ROOMS = ("model", "placement", "balance", "groups", "stores", "tables", "guards")
INNER = (
    "balance.comparison balance.evaluation balance.helix balance.kafka groups.admin shards.admin shards.plan work.admin"
)
PUBLIC = {
    kind
    for room in map(import_module, ["apportion", *(f"apportion.{room}" for room in (*ROOMS, *INNER.split()))])
    for kind in (getattr(room, name) for name in room.__all__)
    if inspect.isclass(kind) and is_dataclass(kind)
} | {Certificate, Proof}
OF_FIELDS = sorted((kind for kind in PUBLIC if kind.__dataclass_params__.repr), key=lambda kind: kind.__name__)
NODES = Topology(Node(f"{number:03d}{'x' * 252}", zone=(f"{number:03d}", *["z" * 255] * 7)) for number in range(60))
FEW = Topology(NODES.nodes[:5])


@pytest.mark.parametrize("kind", OF_FIELDS, ids=lambda kind: kind.__qualname__)
@pytest.mark.parametrize("held", ["x" * 10**6, ("k" * 10**5,) * 10**5, {"k" * 300: b"v" * 300}, -(10**300)])
def test_the_fields_of_a_public_object_are_cut(kind, held):
    made = object.__new__(kind)
    for each in fields(kind):
        object.__setattr__(made, each.name, held)
    assert len(repr(made)) <= MOST_CHARACTERS
    assert repr(made).startswith(kind.__qualname__)


@pytest.mark.parametrize("name", placement.names())
def test_a_placement_of_long_names_is_shown_in_one_short_line(name):
    built = start(placement.get(name), FEW if name == "cassandra" else NODES)
    assert len(repr(built)) <= MOST_CHARACTERS
    assert repr(built).startswith(type(built).__name__)


def test_values_of_long_names_are_shown_in_one_short_line():
    one, two = Ring(FEW), Ring(Topology(FEW.nodes[:4]))
    assignment = Assignment(topology=FEW, rows=((0, 1, 2),) * 8)
    shown = [
        FEW, NODES, one.table(), assignment, assignment.preference_lists, assignment.rows, plan(one, two),
        plan(one, two).changes[0], plan(one, two).moves[0], one.explain("k" * 60_000), Frozen.load(encode(one.table())),
        FEW.nodes[0], balance.slots(FEW),
    ]  # fmt: skip
    assert [] == [repr(each) for each in shown if len(repr(each)) > MOST_CHARACTERS]


def test_a_short_repr_is_that_of_a_dataclass_and_hides_a_password():
    assert "Node(id='a', zone=('eu', 'rack3'), weight=2.0)" == repr(Node("a", zone=("eu", "rack3"), weight=2))
    change = plan(Ring(["a"]), Ring(["b"]), ["postgres://app:hunter2@db/orders"]).changes[0]
    assert "Change(item='postgres://***@db/orders', before=('a',), after=('b',))" == repr(change)


def test_a_named_tuple_is_shown_as_a_dataclass_is():
    receipt = Receipt(task="postgres://app:hunter2@db/orders", attempt=2, session=7)
    assert "Receipt(task='postgres://***@db/orders', attempt=2, session=7)" == repr(receipt)
    assert MOST_CHARACTERS == len(repr(receipt._replace(task="x" * 10**6, attempt=10**190)))


def test_a_class_of_its_own_repr_keeps_it_until_it_is_too_long():
    class Long:
        def __init__(self, text):
            self.text = text

        def __repr__(self):
            return self.text

    kind = brief(Long)
    assert "x" * MOST_CHARACTERS == repr(kind("x" * MOST_CHARACTERS))
    assert f"{'x' * (MOST_CHARACTERS - 1)}…" == repr(kind("x" * (MOST_CHARACTERS + 1)))
