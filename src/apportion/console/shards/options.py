"""Options of the commands of shards: the shards of a set, and the models of a program."""

from collections.abc import Sequence

from sqlalchemy.orm import DeclarativeBase

from apportion.console.tasks.program import imported
from apportion.errors import InvalidInput

_EXAMPLE = "Write for example --models shop.models:Base"


def shards_of(words: Sequence[str]) -> dict[str, str]:
    """Return the URL of each shard by its id."""
    found: dict[str, str] = {}
    for word in words:
        shard, mark, url = word.partition("=")
        if not mark or not shard or "://" not in url:
            said = "(not shown)" if "@" in word else word
            raise InvalidInput("--shard", said, "ID=URL", "Write for example --shard one=sqlite:///one.db")
        if shard in found:
            raise InvalidInput("--shard", shard, "each id once", "Leave one of them out.")
        found[shard] = url
    return found


def base_at(place: str) -> type[DeclarativeBase]:
    """Return the declarative base of a program."""
    module, mark, name = place.partition(":")
    if not (mark and name.isidentifier() and all(each.isidentifier() for each in module.split("."))):
        raise InvalidInput("--models", place, "a module and a name in it", _EXAMPLE)
    found = getattr(imported(module, "--models"), name, None)
    if not (isinstance(found, type) and issubclass(found, DeclarativeBase)) or hasattr(found, "__mapper__"):
        expected = "the base of the models, a subclass of sqlalchemy.orm.DeclarativeBase"
        raise InvalidInput("--models", place, expected, _EXAMPLE)
    return found
