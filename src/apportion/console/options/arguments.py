"""Arguments: the parameters that many commands share, with their help."""

from typing import Annotated

from cyclopts import Parameter

Json = Annotated[bool, Parameter(help="Print one JSON object instead.")]
Force = Annotated[bool, Parameter(help="Replace the file, whatever it holds.", negative="")]
Url = Annotated[str, Parameter(help="URL of the store, such as sqlite:///work.db")]
GroupName = Annotated[str, Parameter(help="Name of the group.")]
MemberId = Annotated[str, Parameter(help="Id of the member.")]
PartitionNumber = Annotated[int, Parameter(help="Number of the partition.")]
