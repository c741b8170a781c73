"""Hasher options: the hash function from `--hasher`, and its secret from `--hasher-key-file`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from apportion.console.files.io import read_bounded
from apportion.errors import InvalidInput
from apportion.model.table import Table
from apportion.placement import catalog, hashers

SECRET_FILE_BYTES = 4096


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Hashing:
    """How a key becomes a position."""

    hasher: Annotated[str | None, Parameter(help="Hash function (default: xxh3-64, or the one of the table).")] = None
    hasher_key_file: Annotated[
        Path | None, Parameter(help="File with the secret of siphash-2-4: 16 bytes, or 32 hexadecimal digits.")
    ] = None

    def asked_hasher(self) -> hashers.NamedHasher | None:
        """Return the hasher of the options, None if neither option was given."""
        if self.hasher is None and self.hasher_key_file is None:
            return None
        return hashers.get(hashers.DEFAULT if self.hasher is None else self.hasher, key=self._key())

    def load_hasher(self) -> hashers.NamedHasher:
        """Return the hasher of the options, or the default one."""
        return self.asked_hasher() or hashers.get()

    def load_position_hasher(self, table: Table | None = None) -> hashers.Hasher:
        """Return the hasher that gives keys their positions in ranges: that of the options, or else that of a table.

        The hasher may be that of a layout. If there is a table, a hasher other than the table's is refused.
        """
        of_table = hashers.DEFAULT if table is None else table.hasher.partition(":")[0]
        hasher = catalog.hasher(of_table if self.hasher is None else self.hasher, key=self._key())
        if table is not None and hasher.label != table.hasher:
            is_other = hasher.label.partition(":")[0] != of_table
            option, value = ("--hasher", self.hasher) if is_other else ("--hasher-key-file", "(a secret)")
            hint = "Leave --hasher out, or correct the key file."
            raise InvalidInput(option, value, f"that of the table, {table.hasher}", hint)
        return hasher

    def _key(self) -> bytes | None:
        return None if self.hasher_key_file is None else _secret(self.hasher_key_file)


def _secret(path: Path) -> bytes:
    data = read_bounded(path, SECRET_FILE_BYTES, what="--hasher-key-file")
    text = data.strip()
    if len(data) != hashers.SECRET_BYTES and len(text) == 2 * hashers.SECRET_BYTES:
        try:
            return bytes.fromhex(text.decode())
        except ValueError:
            pass
    return data
