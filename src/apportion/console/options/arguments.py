"""Arguments: the parameters that many commands share, with their help."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter, Token


def whole(_: object, tokens: Sequence[Token]) -> int:
    """Return a whole number. The parser itself would round `1.5` silently."""
    return int(tokens[0].value)


Whole = Annotated[int, Parameter(converter=whole)]
Json = Annotated[bool, Parameter(help="Print one JSON object instead.")]
Force = Annotated[bool, Parameter(help="Replace the file, whatever it holds.", negative="")]
Url = Annotated[
    str, Parameter(help="URL of the store, such as sqlite:///work.db; or pass --url-file, or set APPORTION_STORE.")
]
GroupName = Annotated[str, Parameter(help="Name of the group.")]
MemberId = Annotated[str, Parameter(help="Id of the member.")]
PartitionNumber = Annotated[int, Parameter(converter=whole, help="Number of the partition.")]
