"""Sets of shards for tests of this room: on SQLite files, and on databases of one PostgreSQL server for each worker."""

import psycopg
import pytest

from tests.shards.postgres_rig import LOGICAL
from tests.shards.sample import Files
from tests.shards.server import OWNER, Servers, as_role
from tests.stores.rigs import absent
from tests.stores.rigs.postgres import SECRET, USER, PostgresRig

BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.live)]


@pytest.fixture(scope="session")
def rig():
    try:
        # Databases are made by the dozen, and no power is cut.
        made = PostgresRig(settings=("fsync = off", "max_prepared_transactions = 8"))
    except FileNotFoundError as error:
        absent(str(error))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def servers():
    """Two servers that replicate."""
    made = [PostgresRig(settings=("fsync = off", *LOGICAL)) for _ in range(2)]
    yield made
    for each in made:
        each.stop()


@pytest.fixture(scope="module")
def make_set(request, tmp_path_factory):
    """Return a function that makes a set on a kind of database. The sets are dropped with the module."""
    made = []

    def make(kind, **options):
        folder = tmp_path_factory.mktemp("shards")
        if kind == "sqlite":
            return Files(folder, **options)
        with pytest.MonkeyPatch.context() as patched:
            as_role(patched, OWNER)
            made.append(Servers(request.getfixturevalue("rig"), folder, **options))
        return made[-1]

    yield make
    for each in made:
        each.drop()


@pytest.fixture(autouse=True)
def as_member(monkeypatch):
    """Sessions of the tests have a role that owns nothing."""
    as_role(monkeypatch, USER)


@pytest.fixture(scope="module", params=BOTH)
def kind(request):
    """The kind of database that a set of the test lies on."""
    return request.param


@pytest.fixture
def mover(rig, tmp_path, monkeypatch):
    """A set that a role has made which is no superuser."""
    password = psycopg.sql.quote(SECRET)
    rig.sql(f"CREATE ROLE mover LOGIN PASSWORD {password}", database="postgres")
    as_role(monkeypatch, "mover")
    files = Servers(rig, tmp_path, owner="mover")
    yield files
    files.drop()
    rig.sql("REVOKE SET ON PARAMETER session_replication_role FROM mover", database="postgres")
    rig.sql("DROP ROLE mover", database="postgres")
