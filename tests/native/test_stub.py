"""The stub says what the twin has: every public name, every method, with the same parameters."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

import apportion
from apportion import native
from tests.native.comparing import needs_twin

STUB = Path(apportion.__file__).parent / "_native.pyi"
CONSTRUCTORS = ("__new__", "__init__")


def differences(stub, module):
    """Yield where a stub and a module differ."""
    stated = members_of(ast.parse(stub).body)
    yield from differences_of_names("", stated, public_names(module))
    for name in stated.keys() & set(public_names(module)):
        yield from differences_of(name, stated[name], getattr(module, name))


def differences_of_names(place, stated, found):
    yield from (f"{place}{name} is not in the stub" for name in sorted(set(found) - stated.keys()))
    missing = {name for name in stated if not name.startswith("__")} - set(found)
    yield from (f"{place}{name} is in the stub only" for name in sorted(missing))


def differences_of(place, stated, found):
    if isinstance(stated, ast.FunctionDef) and not is_property(stated):
        text = found.__text_signature__
        if parameters_of(stated) != plain(text):
            yield f"{place} is {plain(text)}, in the stub {parameters_of(stated)}"
    if isinstance(stated, ast.ClassDef):
        yield from differences_of_class(place, members_of(stated.body), found)


def differences_of_class(place, stated, found):
    yield from differences_of_names(f"{place}.", stated, public_names(found))
    for name, member in stated.items():
        if name in CONSTRUCTORS:
            own = parameters_of(member).replace("(self, ", "(").replace("(cls, ", "(")
            if own != plain(found.__text_signature__):
                yield f"{place} is made with {plain(found.__text_signature__)}, in the stub {own}"
        elif name.startswith("__") and name not in vars(found):
            yield f"{place}.{name} is in the stub only"
        elif not name.startswith("__") and hasattr(found, name):
            yield from differences_of(f"{place}.{name}", member, getattr(found, name))


def public_names(owner):
    return [name for name in vars(owner) if not name.startswith("_")]


def members_of(body):
    """Return the declarations of a body by name; imports and private names are left out."""
    named = [
        (statement.name, statement) for statement in body if isinstance(statement, (ast.FunctionDef, ast.ClassDef))
    ]
    named += [(each.target.id, each) for each in body if isinstance(each, ast.AnnAssign)]
    return {name: each for name, each in named if name.startswith("__") or not name.startswith("_")}


def is_property(function):
    return any(isinstance(each, ast.Name) and each.id == "property" for each in function.decorator_list)


def parameters_of(function):
    """Return a function's parameters without their types, as its text signature would have them."""
    arguments = function.args
    rest = [each for each in (arguments.vararg, arguments.kwarg) if each]
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest):
        each.annotation = None
    return f"({ast.unparse(arguments)})"


def plain(text_signature):
    """Return a text signature in the spelling of `ast.unparse`."""
    if text_signature is None:
        return None
    return parameters_of(ast.parse(f"def f{text_signature.replace('$', '')}: ...").body[0])


@needs_twin
def test_the_stub_is_what_the_twin_has():
    assert [] == list(differences(STUB.read_text(), native.extension))


def planted(signature="($self, key)"):
    route = SimpleNamespace(__text_signature__=signature)
    table = SimpleNamespace(route=route, size=None, __text_signature__="(rows, *, width=2)", __len__=None)
    return SimpleNamespace(Table=table, position=SimpleNamespace(__text_signature__="(hasher, key, secret=None)"))


WELL = """
class Table:
    def __new__(cls, rows: int, *, width: int = 2) -> Table: ...
    def __len__(self) -> int: ...
    @property
    def size(self) -> int: ...
    def route(self, key: str) -> str: ...
def position(hasher: str, key: str, secret: bytes | None = None) -> int: ...
"""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("WELL", "WELL", []),
        ("def position", "def positions", ["position is not in the stub", "positions is in the stub only"]),
        ("secret: bytes | None = None", "secret: bytes",
         ["position is (hasher, key, secret=None), in the stub (hasher, key, secret)"]),
        ("route(self, key: str)", "route(self)", ["Table.route is (self, key), in the stub (self)"]),
        ("def route", "def routes", ["Table.route is not in the stub", "Table.routes is in the stub only"]),
        ("*, width", "width", ["Table is made with (rows, *, width=2), in the stub (rows, width=2)"]),
        ("__len__", "__iter__", ["Table.__iter__ is in the stub only"]),
        ("def size", "def sizes", ["Table.size is not in the stub", "Table.sizes is in the stub only"]),
    ],
)  # fmt: skip
def test_a_planted_difference_is_found(old, new, found):
    assert found == list(differences(WELL.replace(old, new), planted()))
