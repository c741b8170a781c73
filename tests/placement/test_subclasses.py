"""A subclass of a placement adds methods; a subclass that replaces an answer is refused when the class is made."""

import pickle
from dataclasses import dataclass

import pytest

from apportion import Ring, Topology, placement
from apportion.errors import InvalidInput
from apportion.placement.shapes.circle import Circle

KINDS = [placement.get(name).build for name in placement.names()]
ANSWERS = ("explain", "on", "preference", "route", "route_indexes", "route_many", "table", "topology")


class Tenants(Ring):
    def get_node(self, key):
        return self.route(f"tenant-{key}")


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Slotted(Tenants):
    def second(self, key):
        return self.preference(key, 2)[1]


class Upper:
    def route(self, key):
        return super().route(key.upper())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ANSWERS)
def test_a_subclass_that_replaces_an_answer_is_refused(kind, name):
    said = rf"method of Mine is '{name}', expected a name that {kind.__name__} does not have.\nAdd a method of another"
    with pytest.raises(InvalidInput, match=said):
        type("Mine", (kind,), {name: lambda *_: None})


@pytest.mark.parametrize("bases", [(Upper, Ring), (Upper, Tenants)])
def test_an_answer_that_comes_from_another_base_is_refused_too(bases):
    with pytest.raises(InvalidInput, match="method of Mine is 'route'"):
        type("Mine", bases, {})
    assert type("Mine", bases[::-1], {})(["a"]).route("k") == "a"


def test_a_subclass_adds_methods_also_under_the_name_of_another_library():
    for kind in (Tenants, Slotted):
        ring = kind(["a", "b", "c"])
        assert Ring(["a", "b", "c"]).route("tenant-7") == ring.get_node("7")
        assert kind is type(ring.on(Topology(["a"]))) is type(pickle.loads(pickle.dumps(ring)))
    assert Slotted(["a", "b"]).second("k") in "ab"


def test_a_placement_of_ones_own_names_its_answers_itself():
    class Mine(Circle):
        def table(self, replicas=1, **options):
            return None

    assert Mine.table is not Circle.table
