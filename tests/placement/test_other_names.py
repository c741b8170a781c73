"""A name that other libraries use for an act of a placement raises an error, and the error names our call."""

import pickle

import pytest
from uhashring import HashRing

from apportion import Assignment, Jump, Modulo, Rendezvous, Ring, Slots, Topology, balance, placement
from apportion.placement.lists import Lists
from apportion.placement.shapes.other_names import _CALLS
from tests.contracts.promises import NODES
from tests.contracts.samples import start

NAMES = [name for names in _CALLS.values() for name in names.split()]


@pytest.fixture(params=placement.names())
def built(request):
    return start(placement.get(request.param), NODES)


def test_every_placement_refuses_other_names_with_a_call_to_write(built):
    own = {name for name in NAMES if name in vars(type(built))}
    assert own <= {"nodes"}
    for name in set(NAMES) - own:
        with pytest.raises(AttributeError, match=rf"(?s)^{type(built).__name__} has no {name}\..*Write: "):
            getattr(built, name)
        assert not hasattr(type(built), name)
    assert set(dir(built)).isdisjoint(set(NAMES) - own)
    assert type(built) is type(pickle.loads(pickle.dumps(built)))


def test_a_key_in_brackets_is_an_error_that_names_route(built):
    kind = type(built).__name__
    with pytest.raises(TypeError) as caught:
        built["k"]
    assert f"{kind} has no [].\nWrite: {kind.lower()}.route('k')" == str(caught.value)
    for ask in (iter, lambda built: "k" in built):
        with pytest.raises(TypeError, match=r"not iterable|not a container"):
            ask(built)


@pytest.mark.parametrize("kind", [Ring, Rendezvous, Slots])
@pytest.mark.parametrize("name", NAMES)
def test_the_call_of_an_error_can_be_written_as_it_stands(kind, name):
    with pytest.raises(AttributeError) as caught:
        getattr(kind, name)
    call = str(caught.value).partition("Write: ")[2].removesuffix(" for a key")
    takes_away = name.startswith(("del", "remove"))
    topology = Topology(["a", "b", "c", "d"] if takes_away else ["a", "b", "c"])
    replicated = Slots(Assignment(topology=topology, rows=((0, 1, 2),) * 16))
    built = kind(topology) if kind is not Slots else replicated if ", 3)" in call else Slots(balance.slots(topology))
    known = {kind.__name__.lower(): built, "balance": balance, "Slots": Slots}
    for each in call.split(", or "):
        exec(each, known)
    changed = known[kind.__name__.lower()].topology
    assert changed.ids == (("a", "b", "c", "d") if "add(" in call else ("a", "b", "c"))


def test_every_public_name_of_uhashring_has_an_answer():
    names = {name for name in dir(HashRing(["a"])) if not name.startswith("_")}
    assert {"regenerate", "runtime", "size"} == names - set(NAMES)  # a placement has nothing like them


def test_a_name_of_nobody_has_the_error_of_python():
    for built in (Ring(["a"]), Jump(["a"]), Modulo(["a"]), Lists(["a"], values={"a": ["k"]})):
        with pytest.raises(AttributeError, match=f"'{type(built).__name__}' object has no attribute 'nonsense'"):
            _ = built.nonsense
