"""`apportion shards explain`: how a statement of the program would be split over all shards."""

import asyncio
from typing import Annotated

from cyclopts import Parameter
from sqlalchemy import Select

from apportion.console.options.arguments import Json, Url
from apportion.console.print.output import print_json, print_text
from apportion.console.shards.options import Models, SetName, base_at, named_in
from apportion.errors import BadSnapshot, InvalidInput, NotScatterable
from apportion.runtime.io_thread import io_thread
from apportion.shards.dialects import kind_of
from apportion.shards.round.shard_commands import shard_records
from apportion.shards.scatter.explanation import explain

_EXAMPLE = "Write for example shop.reports:best, for the statement best in the module shop.reports."


def explain_shards(
    url: Url,
    name: SetName,
    statement: Annotated[
        str, Parameter(name="STATEMENT", help="Module and name of a select(), such as shop.reports:best.")
    ],
    /,
    *,
    models: Models,
    json: Json = False,
) -> None:
    """Show how router.scatter would split a select() of your program, and merge the rows. No shard is asked."""
    base, wanted = base_at(models), _statement_at(statement)
    records = asyncio.run(io_thread().hop(shard_records(url, name)))
    kinds = sorted({kind_of(each.url) for each in records.values() if not isinstance(each, BadSnapshot)})
    if len(kinds) != 1:
        raise NotScatterable(wanted, f"the shards are of several kinds: {', '.join(kinds)}")
    told = explain(wanted, base=base, dialect=kinds[0])
    if json:
        print_json("shards explain", set=name, statement=statement, dialect=kinds[0], lines=told.splitlines())
        return
    print_text(told)
    print()
    print_text(f"shards explain: {statement} can be answered by the {len(records)} shards of {name}, in {kinds[0]}")


def _statement_at(place: str) -> object:
    found = named_in(place, "STATEMENT", _EXAMPLE)
    if not isinstance(found, Select):
        raise InvalidInput("STATEMENT", place, "the place of a select() of SQLAlchemy", _EXAMPLE)
    return found
