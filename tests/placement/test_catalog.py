"""The catalog finds every placement of this room and of other packages, and names the nearest to a misspelt one."""

import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from apportion import Ring, placement
from apportion.errors import InvalidInput, UnknownOption
from apportion.placement import modulo
from apportion.placement.api import Placement
from apportion.runtime import entry_points
from tests.console.running import run
from tests.contracts.promises import CHECKS

RING = placement.get("ring")


class Entry:
    """An entry point of another package, as `importlib.metadata` presents it."""

    def __init__(self, name, load):
        self.name, self.load = name, load


@pytest.fixture
def installed(monkeypatch):
    """Let a test install entry points."""

    def install(*entries):
        def found(group):
            return entries if group == "apportion.placements" else ()

        monkeypatch.setattr(entry_points, "installed", found)

    return install


def test_every_file_of_the_room_that_ends_in_a_spec_is_listed():
    room = Path(placement.__file__).parent
    texts = [path.read_text() for path in room.rglob("*.py")]
    ending = {name for text in texts for name in re.findall(r'\nSPEC = PlacementSpec\(\s*name="(\w+)"', text)}
    assert ending == set(placement.names())
    assert {"jump", "modulo", "rendezvous", "ring", "slots"} <= ending


@pytest.fixture
def hoop(tmp_path, monkeypatch):
    """Add one file to the room, a twin of `modulo` under a name of its own, and touch nothing else."""
    text = Path(modulo.__file__).read_text().replace("Modulo", "Hoop").replace('"modulo"', '"hoop"')
    (tmp_path / "hoop.py").write_text(text)
    monkeypatch.setattr(placement, "__path__", [*placement.__path__, str(tmp_path)])
    monkeypatch.setattr(placement, "hoop", None, raising=False)  # the import sets it, and the end takes it away
    yield placement.get("hoop")
    sys.modules.pop("apportion.placement.hoop")


@pytest.mark.parametrize("check", [check for field, check in CHECKS.items() if field != "source"])
def test_a_file_that_ends_in_a_spec_is_a_placement_and_is_held_to_its_promises(hoop, check):
    check(hoop)


def test_the_command_line_takes_and_names_a_placement_that_is_one_file(hoop, tmp_path):
    arguments = ("route", "--nodes", "a,b,c", "--placement")
    routed = run(*arguments, "hoop", "tenant-42", folder=tmp_path)
    owner = hoop(["a", "b", "c"]).route("tenant-42")
    assert (0, f"tenant-42\t{owner}\n".encode()) == (routed.returncode, routed.stdout)
    assert b"Did you mean 'hoop'?" in run(*arguments, "hop", "tenant-42", folder=tmp_path).stderr


@pytest.mark.parametrize("name", placement.names())
def test_a_spec_builds_what_its_class_would(name):
    spec = placement.get(name)
    assert name == spec.name
    assert spec.source


@pytest.mark.parametrize("name", placement.names())
@pytest.mark.parametrize("way", ["route_many", "route_indexes", "preference_many"])
def test_every_way_of_asking_for_many_keys_has_the_defaults_of_the_seam(name, way):
    ask = getattr(placement.get(name).build, way, None)
    if way == "preference_many":  # no method of the seam: a placement has it where the native twin has
        seam = {**defaults(Placement.preference), **defaults(Placement.route_many)}
        assert ask is None or seam == defaults(ask)
    else:
        assert defaults(getattr(Placement, way)) == defaults(ask)


def defaults(method):
    """Return the parameters of a method that have a default; the native twin says its own as text."""
    parameters = inspect.signature(method).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not each.empty}


def test_calling_a_spec_passes_options_on():
    assert Ring(["a"], vnodes=7, hasher="md5") == RING(["a"], vnodes=7, hasher="md5")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("rign", "ring"), ("Ring", "ring"), ("rendevous", "rendezvous"), ("slot", "slots"), ("", None)],
)
def test_an_unknown_name_is_refused_and_the_nearest_named(name, nearest):
    with pytest.raises(UnknownOption, match=r"expected one of .*jump.*, kafka, ") as caught:
        placement.get(name)
    assert nearest == caught.value.nearest
    assert (f"Did you mean {nearest!r}?" if nearest else "Pick one of them.") == caught.value.hint


@pytest.mark.parametrize("name", [None, 5, ["ring"], b"ring"])
def test_a_name_is_a_string(name):
    with pytest.raises(UnknownOption, match="placement is"):
        placement.get(name)


def test_a_placement_of_another_package_is_found(installed):
    hoop = replace(RING, name="hoop")
    installed(Entry("hoop", lambda: hoop))
    assert hoop is placement.get("hoop")
    assert "hoop" in placement.names()


def test_a_name_of_this_room_cannot_be_taken_over(installed):
    installed(Entry("ring", lambda: replace(RING, source="elsewhere")))
    assert RING is placement.get("ring")
    assert 1 == placement.names().count("ring")


def test_entry_points_are_not_asked_for_a_name_of_this_room(monkeypatch):
    monkeypatch.setattr(entry_points, "installed", None)
    assert RING is placement.get("ring")


@pytest.mark.parametrize("broken", [ImportError("no module named hoop"), AttributeError("no SPEC in hoop")], ids=repr)
def test_a_package_that_does_not_import_is_named(installed, broken):
    def load():
        raise broken

    installed(Entry("hoop", load))
    for ask in (placement.names, lambda: placement.get("hoop"), lambda: placement.get("rign")):
        with pytest.raises(InvalidInput, match=f"entry point 'hoop' of apportion.placements is '{broken}'") as caught:
            ask()
        assert broken is caught.value.__cause__
        assert "uninstall" in caught.value.hint


@pytest.mark.parametrize("thing", [Ring, None, "apportion"], ids=["class", "None", "str"])
def test_an_entry_point_that_is_no_spec_is_refused(installed, thing):
    installed(Entry("hoop", lambda: thing))
    with pytest.raises(
        InvalidInput, match=r"entry point 'hoop' of apportion\.placements is .*, expected a PlacementSpec"
    ):
        placement.names()
