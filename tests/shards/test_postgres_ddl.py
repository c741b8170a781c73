"""Tables that change while their rows move: values written anew arrive, and unequal tables let the move rest."""

import asyncio

import pytest

from apportion.errors import SchemaDiffers
from apportion.shards import admin
from apportion.shards.postgres.schema import triggers
from tests.shards.sample import SET
from tests.shards.server import OWNER, Servers, as_role, translated

pytestmark = pytest.mark.live

ROWS = "INSERT INTO place (slot, id, country, visits) SELECT slot, gen_random_uuid(), 'FR', 1"
SLOTS = "SELECT slot FROM apportion_slot WHERE state = 'owner' ORDER BY slot LIMIT 4"
OF_SLOT = "FROM (SELECT min(slot) AS slot FROM apportion.slot WHERE state = 'owner') s"
TAG = (
    "CREATE TABLE tag (slot smallint NOT NULL, id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name text)",
    "CREATE UNIQUE INDEX tag_by_slot ON tag (slot, id)",
    *triggers("tag"),
)
IN_PARTS = (
    "DROP TABLE photo, place",
    "CREATE TABLE place (slot smallint NOT NULL, id uuid, country text, visits int, PRIMARY KEY (id, country))"
    " PARTITION BY LIST (country)",
    "CREATE TABLE place_fr PARTITION OF place FOR VALUES IN ('FR')",
    "CREATE UNIQUE INDEX place_by_slot ON place (slot, id, country)",
    *triggers("place"),
)
ANEW = (
    "DROP TABLE photo",
    "CREATE TABLE other (LIKE place INCLUDING ALL)",
    "INSERT INTO other SELECT * FROM place",
    "DROP TABLE place",
    "ALTER TABLE other RENAME TO place",
    *triggers("place"),
)
COLUMN = "ALTER TABLE place ADD height integer DEFAULT 5"

# The statements on both shards. Those of the second list write to the source afterwards.
RENAMED = "another name of the key"
UNDER_THE_FENCE = {
    "a column with a value of its own in each row": ["ALTER TABLE place ADD mark uuid DEFAULT gen_random_uuid()"],
    "a type with another value in each row": [
        "ALTER TABLE place ALTER visits TYPE bigint USING (1e9 * random())::bigint"
    ],
    RENAMED: ["ALTER TABLE place RENAME id TO key"],
    "another key": ["ALTER TABLE place DROP CONSTRAINT place_pkey CASCADE, ADD PRIMARY KEY (id, country)"],
    "a dropped column": ["ALTER TABLE place DROP visits"],
}
BEHIND_THE_COPY = {
    "a new sharded table": (TAG, f"INSERT INTO tag (slot, name) SELECT slot, 'first' {OF_SLOT}"),
    "a table that was made anew": (ANEW, f"{ROWS} {OF_SLOT}"),
    RENAMED: (UNDER_THE_FENCE[RENAMED], f"{ROWS.replace('id', 'key', 1)} {OF_SLOT}"),
}


@pytest.fixture
def files(rig, tmp_path, monkeypatch):
    as_role(monkeypatch, OWNER)
    made = Servers(rig, tmp_path)
    yield made
    made.drop()


def run(files, shards, *statements):
    """Run statements on some shards as they stand."""
    for shard in shards:
        with files.connect(shard, autocommit=True) as connection:
            for statement in statements:
                connection.execute(translated(statement).replace("%", "%%"))


def filled(files, *statements):
    """Change the tables of both shards, and give 300 rows to each of four slots of shard one; return the slots."""
    run(files, ("one", "two"), *statements)
    slots = [slot for (slot,) in files.sql("one", SLOTS)]
    files.sql("one", f"{ROWS} FROM unnest(%s::smallint[]) slot, generate_series(1, 300)", (slots,))
    return slots


def observer(**acts):
    """Return an observer that does each act at the first end of its step, and a list of the steps."""
    done = []

    def hear(event):
        if event.step in acts and event.step not in done:
            done.append(event.step)
            acts[event.step]()

    return hear, done


def applied(files, slots=(), hear=None):
    """Move slots, or end the moves that have begun; return whether they ended."""

    async def main():
        plan = await admin.plan(files.url, SET, slots=slots, to="two") if slots else None
        async with asyncio.timeout(40):
            return (await admin.apply(files.url, SET, plan, observer=hear)).is_whole

    return asyncio.run(main())


def rows(files, shard, slots, *tables):
    """Return the rows of some slots, each as JSON."""
    found = []
    for table in tables:
        asked = f"SELECT to_jsonb(kept)::text FROM {table} kept WHERE slot = ANY (%s) ORDER BY 1"
        found += files.sql(shard, asked, (slots,))
    return found


@pytest.mark.parametrize("change", UNDER_THE_FENCE)
def test_rows_arrive_as_they_are_when_both_shards_are_changed_under_the_fence(files, change):
    slots = filled(files)
    hear, done = observer(
        intent=lambda: run(files, ("one",), f"{ROWS} {OF_SLOT}, generate_series(1, 20)"),
        fence=lambda: run(files, ("one", "two"), *UNDER_THE_FENCE[change]),
    )
    assert applied(files, slots, hear)
    assert ["intent", "fence"] == done
    before = rows(files, "one", slots, "place")
    assert 1_220 == len(before)
    assert before == rows(files, "two", slots, "place")


@pytest.mark.parametrize("change", BEHIND_THE_COPY)
def test_rows_arrive_as_they_are_when_both_shards_are_changed_behind_the_copy(files, change):
    slots, (both, write) = filled(files), BEHIND_THE_COPY[change]

    written = [lambda: run(files, ("one",), write)]

    def act():
        run(files, ("one", "two"), *both)
        if change != RENAMED:  # until the mover looks again, its triggers name the key as before
            written.pop()()

    hear, done = observer(verify=act, intent=lambda: [each() for each in written])
    assert applied(files, slots, hear)
    assert ["verify", "intent"] == done
    tables = ("place", "tag") if "new" in change.split() else ("place",)
    before = rows(files, "one", slots, *tables)
    assert 1_201 == len(before)
    assert before == rows(files, "two", slots, *tables)


def test_the_rows_of_a_partition_that_is_attached_under_the_fence_arrive(files):
    slots = filled(files, *IN_PARTS)
    part = "CREATE TABLE place_de (LIKE place)"
    attach = "ALTER TABLE place ATTACH PARTITION place_de FOR VALUES IN ('DE')"

    def act():
        run(files, ("one",), part, f"INSERT INTO place_de SELECT {slots[0]}, gen_random_uuid(), 'DE', 7", attach)
        run(files, ("two",), part, attach)

    hear, done = observer(fence=act)
    assert applied(files, slots, hear)
    assert done
    before = rows(files, "one", slots, "place")
    assert 1_201 == len(before)
    assert before == rows(files, "two", slots, "place")


@pytest.mark.parametrize("step", ["capture", "chunk", "verify", "fence"])
def test_a_column_on_one_shard_alone_stops_the_move_and_on_both_it_goes_on(files, step):
    slots = filled(files)
    hear, done = observer(**{step: lambda: run(files, ("one",), COLUMN)})
    said = r"public\.place\.height is integer in shard one and absent in shard two"
    for again in ((slots, hear), ()):
        with pytest.raises(SchemaDiffers, match=said) as refusal:
            applied(files, *again)
        assert "The move rests, and its slots stay on shard one." in refusal.value.hint
        assert slots == [slot for (slot,) in files.sql("one", SLOTS)]
    assert done
    run(files, ("one",), f"{ROWS} {OF_SLOT}")
    run(files, ("two",), COLUMN)
    assert applied(files)
    before = rows(files, "one", slots, "place")
    assert 1_201 == len(before)
    assert before == rows(files, "two", slots, "place")
