"""`apportion apply`: carry a saved plan out on the saved table it was made from."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.files import alone_with, read_bounded, write_whole
from apportion.console.output import print_json
from apportion.console.source import read_table
from apportion.model import codec
from apportion.model.plan import Plan
from apportion.placement.change import apply as apply_to


def apply(
    plan: Path,
    /,
    *,
    table: Path = Path("table.json"),
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    json: bool = False,
) -> None:
    """Make the table that a plan leads to; refuse if the table is not the one the plan was made from.

    Parameters
    ----------
    plan
        Plan saved by `apportion plan -o`.
    table
        Table to change.
    output
        Write the result here, and leave the table as it is.
    json
        Print one JSON object instead.
    """
    change = codec.decode(read_bounded(plan, codec.MAX_BYTES, what="plan file"), Plan)
    target = output or table
    with alone_with(target, what="--output"):
        write_whole(target, codec.encode(apply_to(change, read_table(table))), what="--output")
    if json:
        print_json("apply", epoch_before=str(change.before), epoch_after=str(change.after), table=str(target))
    else:
        print(f"applied: {target} is at epoch {change.after} now (was {change.before})")
