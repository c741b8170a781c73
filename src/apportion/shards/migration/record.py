"""Record of a migration: the revision that a set is brought to, and how far each of its shards has come.

It has the key `shards/<set>/migration` in the control store, and stays there after the end. While a migration has not
ended, no move begins: the commit that begins a move compares this record.

Promises: a record of an unknown format, or with a damaged field, raises `BadSnapshot`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from apportion.errors import BadSnapshot
from apportion.errors.brief import brief
from apportion.model.codec.parsing import pairs, text
from apportion.shards.records import Fields, decoded, encoded

VERSION_TABLE = "alembic_version"
"""The table in which Alembic keeps the revision of a database, unless `env.py` names another one."""

MOST_ERROR_CHARACTERS = 500

MigrationState = Literal["pending", "running", "done", "failed"]
STATES: tuple[MigrationState, ...] = get_args(MigrationState)


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class ShardMigration:
    """A shard in a migration: its id, its state, the revision it was last seen at ("" if none), and the last error.

    `due` has the revisions that a dry run found to be due, in their order.
    """

    id: str
    state: MigrationState = "pending"
    revision: str = ""
    error: str = ""
    due: tuple[str, ...] = ()


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationRecord:
    """The revision that a set is brought to, the table in which its databases keep their revision, and the shards."""

    target: str
    shards: Mapping[str, ShardMigration] = field(default_factory=dict)
    version_table: str = VERSION_TABLE

    @property
    def is_over(self) -> bool:
        """Whether each shard has come to the revision."""
        return all(each.state == "done" for each in self.shards.values())

    def changed(self, to: ShardMigration) -> "MigrationRecord":
        """Return the record with another state of a shard."""
        return replace(self, shards={**self.shards, to.id: to})

    def encode(self) -> bytes:
        """Return the record as bytes."""
        shards = {
            shard: {"state": each.state, "revision": each.revision, "error": each.error[:MOST_ERROR_CHARACTERS]}
            for shard, each in sorted(self.shards.items())
        }
        return encoded({"target": self.target, "version_table": self.version_table, "shards": shards})

    @classmethod
    def decode(cls, data: bytes) -> "MigrationRecord":
        """Return the record that bytes hold."""
        fields = Fields(decoded(data, "migration"), "target", "version_table", "shards")
        return cls(
            target=fields.read("target", text),
            version_table=fields.read("version_table", text),
            shards=fields.read(
                "shards", lambda value: {each: _shard(each, form) for each, form in pairs(value).items()}
            ),
        )


def _shard(shard: str, value: object) -> ShardMigration:
    form = pairs(value)
    state = form.get("state")
    if state not in STATES:
        raise BadSnapshot("state of a shard", state, f"one of {', '.join(STATES)}", "Run the migration again.")
    return ShardMigration(id=shard, state=state, revision=text(form.get("revision")), error=text(form.get("error")))
