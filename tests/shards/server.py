"""A set of databases on a PostgreSQL server of the tests. Its sessions are those of a role that owns nothing."""

from urllib.parse import quote
from uuid import uuid4

import psycopg

from tests.shards.sample import Databases
from tests.stores.rigs.postgres import SECRET, USER

OWNER = "postgres"
"""The role that makes the set: shards are made by a user with rights, and written to by one without."""

_NAMES = (("apportion_meta", "apportion.shard_meta"), ("apportion_slot", "apportion.slot"), ("?", "%s"))


class Servers(Databases):
    """Databases of their own on one server, by the names of the shards. Statements are those of an administrator."""

    kind = "postgresql"

    def __init__(self, rig, folder, owner=OWNER, **options):
        self.rig, self._mark, self._owner = rig, uuid4().hex[:8], owner
        self._made = {}
        super().__init__(folder, **options)
        for shard in self.shards:
            self.sql(shard, f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {USER}")

    def name(self, shard):
        return f"{shard}_{self._mark}"

    def place(self, shard):
        name = self.name(shard)
        if shard not in self._made:
            self.rig_of(shard).sql(f"CREATE DATABASE {name} OWNER {self._owner}", database="postgres")
            self._made[shard] = name
        host, port = self.rig_of(shard).address()
        return f"postgresql://${{SERVER_ROLE}}:${{SERVER_SECRET}}@{host}:{port}/{name}"

    def sql(self, shard, statement, values=()):
        with self.connect(shard, autocommit=True) as connection:
            cursor = connection.execute(translated(statement), values)
            return cursor.fetchall() if cursor.description else []

    def connect(self, shard, *, user=OWNER, **options):
        host, port = self.rig_of(shard).address()
        target = {"host": host, "port": port, "user": user, "password": SECRET, "dbname": self.name(shard)}
        return psycopg.connect(**target, **options)

    def rig_of(self, _shard):
        """Return the server of a shard."""
        return self.rig

    def beside(self):
        """Make an empty database on the server; return its URL."""
        self.place("beside")
        host, port = self.rig.address()
        return f"postgresql+psycopg://{OWNER}:{quote(SECRET, safe='')}@{host}:{port}/{self.name('beside')}"

    def drop(self):
        for shard, name in self._made.items():
            self.rig_of(shard).sql(f"DROP DATABASE {name} WITH (FORCE)", database="postgres")


def translated(statement):
    """Return a statement of the tests with the names and marks of PostgreSQL."""
    for ours, theirs in _NAMES:
        statement = statement.replace(ours, theirs)
    return statement


def as_role(monkeypatch, user):
    """Let this process open shards as a role: their URLs name none."""
    monkeypatch.setenv("SERVER_ROLE", user)
    monkeypatch.setenv("SERVER_SECRET", quote(SECRET, safe=""))
