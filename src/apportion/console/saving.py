"""Tables and assignments in files: read with a bound, and written over no later epoch."""

from pathlib import Path
from typing import TypeVar

from apportion.console.files import alone_with, read_bounded, write_whole
from apportion.errors import BadSnapshot, StaleEpoch
from apportion.model import codec
from apportion.model.assignment import Assignment
from apportion.model.table import Table

Saved = TypeVar("Saved", Table, Assignment)


def read(path: Path, kind: type[Saved]) -> Saved:
    """Return a saved table or assignment."""
    return codec.decode(read_bounded(path, codec.MAX_BYTES, what=f"{kind.__name__.lower()} file"), kind)


def save(value: Saved, output: Path) -> None:
    """Write a value, but never over one of a later epoch: that may be the only record of who owns what."""
    data = codec.encode(value)
    with alone_with(output, what="--output"):
        if output.is_file():
            try:
                current = read(output, type(value)).epoch
            except BadSnapshot:
                pass  # not one of ours, so no version of it
            else:
                if current.number > value.epoch.number:
                    raise StaleEpoch(seen=value.epoch, current=current)
        write_whole(output, data, what="--output")
