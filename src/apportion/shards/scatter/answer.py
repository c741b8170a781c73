"""Answer: the rows of a statement over all shards, with the version of the table and the time of each shard."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData

from apportion.tables.layout import Version


class ScatterAnswer(IteratorResult[Any]):
    """The rows of a statement over all shards, as a result of SQLAlchemy: `all()`, `scalars()`, `one()`, `mappings()`.

    - `version`: the version of the table under which the shards answered.
    - `seconds`: the time that each shard took.
    - `missing`: the slots without an answer, () unless `partial="report"` was given.
    """

    def __init__(
        self,
        keys: Sequence[str],
        rows: Sequence[Any],
        *,
        version: Version,
        seconds: Mapping[str, float],
        missing: Sequence[int] = (),
    ) -> None:
        super().__init__(SimpleResultMetaData(keys), iter(rows))
        self.version: Version = version
        self.seconds: Mapping[str, float] = seconds
        self.missing: tuple[int, ...] = tuple(missing)
