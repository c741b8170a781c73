"""Graft: gives functions of this process the code that they have in a changed text of their file.

A process that has imported everything can so get a bug without another import. A change of anything but functions
(a constant, a statement of SQL, a decorator) cannot be grafted.
"""

import gc
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType

Graft = tuple[CodeType, CodeType]  # the code of a function, and its new code
_IS_FUNCTION = 1  # `inspect.CO_OPTIMIZED`: set for functions, and neither for modules nor for classes


def grafts(file: Path, text: str) -> list[Graft] | None:
    """Return the functions that a text changes; None if it changes anything else."""
    changed: list[Graft] = []
    is_all = _collect(compile(file.read_text(), file, "exec"), compile(text, file, "exec"), changed)
    return changed if is_all else None


def graft(module: str, changed: list[Graft]) -> None:
    """Put new code into the functions of a module, wherever they are bound."""
    file = import_module(module).__file__
    functions = [
        each for each in gc.get_objects() if isinstance(each, FunctionType) and each.__code__.co_filename == file
    ]
    for old, new in changed:
        own = [each for each in functions if each.__code__ == old]
        assert own, f"{old.co_qualname} of {module} is no function of this process"
        for each in own:
            each.__code__ = new


def _collect(old: CodeType, new: CodeType, changed: list[Graft]) -> bool:
    if _without_parts(old) != _without_parts(new):
        return False
    for part, other in zip(_parts(old), _parts(new), strict=True):
        if not part.co_flags & _IS_FUNCTION:
            if not _collect(part, other, changed):
                return False
        elif _shape(part) != _shape(other):
            changed.append((part, other))
    return True


def _parts(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _without_parts(code: CodeType) -> tuple[object, ...]:
    """Return the code of a module or of a class itself, with the names and the closures of its functions alone."""
    consts = [
        (each.co_qualname, each.co_freevars) if isinstance(each, CodeType) else repr(each) for each in code.co_consts
    ]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, consts


def _shape(code: CodeType) -> tuple[object, ...]:
    return *_without_parts(code), code.co_cellvars, [_shape(each) for each in _parts(code)]
