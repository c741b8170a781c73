"""Other names: the names that other libraries give to the acts of a placement; each raises an error with our call.

This is the base class of every placement, so it also refuses a subclass that overrides a method of its placement.

Promises: these names do not slow down the methods that a placement has. For this reason a name is an attribute of the
class, not a case of `__getattr__`. Type checkers and completion do not see these names.
Refuses: to be aliases. A placement never changes, so `add_node` could not do the same here.

Source: the methods of uhashring, tooz, hash_ring, pymemcache and clandestined.
"""

from inspect import getattr_static, isabstract
from typing import TYPE_CHECKING, ClassVar, NoReturn

from apportion.errors import InvalidInput, shown

_CALLS = {
    '{it}.route("k")': "find_node get get_key get_node get_server hash locate lookup",
    '{it}.preference("k", 3)': "find_nodes find_nodes_by_key get_n get_node_n iterate_nodes range",
    '{it}.topology.ids, or {it}.preference("k", 3) for a key': "get_instances get_nodes nodes",
    '{it}.topology["a"]': "get_node_hostname get_node_instance get_node_port get_node_weight",
    '{it}.explain("k")': "get_node_pos get_point hashi",
    "{it}.table()": "conf continuum distribution get_points print_continuum ring",
    "{it} = {add}": "add add_node add_nodes add_server",
    "{it} = {remove}": "del_node del_nodes remove remove_node remove_nodes remove_server",
}


class _OtherName:
    """A name that a placement does not have, and the call for it."""

    def __init__(self, name: str, call: str) -> None:
        self._name, self._call = name, call

    def __get__(self, placement: object, kind: "type[OtherNames]") -> NoReturn:
        raise AttributeError(f"{kind.__name__} has no {self._name}.\nWrite: {kind._call_of(self._call)}")


class OtherNames:
    """The base of every placement; `_NEXT` is the call that makes the next one on the topology `{to}`."""

    __slots__ = ()
    _NEXT: ClassVar[str] = "{it}.on({to})"

    def __init_subclass__(cls) -> None:
        """Refuse a subclass that overrides a method: bulk calls, the native twin and plans would not call it."""
        super().__init_subclass__()
        whole = [base for base in cls.__bases__ if issubclass(base, OtherNames) and not isabstract(base)]
        for base in whole if not cls.__module__.startswith("apportion.") else ():
            for name in dir(base):
                found = getattr_static(base, name)
                if not (name.startswith("_") or isinstance(found, _OtherName) or getattr_static(cls, name) is found):
                    hint = f"Add a method of another name, or write a class that keeps a {base.__name__} and calls it."
                    expected = f"a name that {base.__name__} does not have"
                    raise InvalidInput(f"method of {cls.__name__}", name, expected, hint)

    @classmethod
    def _call_of(cls, call: str) -> str:
        it = cls.__name__.lower()
        add, remove = (
            cls._NEXT.format(it=it, kind=cls.__name__, to=f"{it}.topology.{change}")
            for change in ('add("d")', 'without("d")')
        )
        return call.format(it=it, add=add, remove=remove)

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if not isinstance(vars(OtherNames).get(name), _OtherName)]

    if not TYPE_CHECKING:
        __iter__ = None  # without this, Python would iterate by means of `__getitem__`

        def __getitem__(self, key: object) -> NoReturn:
            call = f"{type(self).__name__.lower()}.route({shown(key)})"
            raise TypeError(f"{type(self).__name__} has no [].\nWrite: {call}")


for _call, _names in _CALLS.items():
    for _name in _names.split():
        setattr(OtherNames, _name, _OtherName(_name, _call))
