"""The stream of a native channel: the marker of a fence, writers of an incoming slot, and rows that never rest."""

import asyncio
import threading
from contextlib import AsyncExitStack, contextmanager

import psycopg
import pytest

from apportion.errors import InvalidInput
from apportion.shards.postgres.replication import target
from apportion.shards.postgres.replication.channel import NativeChannel
from apportion.shards.postgres.server import ShardServer
from apportion.sim.conformance.shards.stage import GROUP, TOKEN, MoveStage, key_of
from tests.shards.postgres_rig import ServerShardRig, drop_slots, drop_subscriptions

pytestmark = pytest.mark.live
SLOT = GROUP.slots[0]


@pytest.fixture(scope="module", autouse=True)
def server():
    yield
    ServerShardRig.stop()


def played(play):
    """Play a story on a new pair of databases."""

    async def main():
        async with AsyncExitStack() as exits:
            pair = await ServerShardRig(NativeChannel).pair()
            exits.push_async_callback(pair.close)
            await play(MoveStage(pair=pair, exits=exits))

    asyncio.run(main())


def stream(pair, act):
    """Let the workers of the only subscription rest, or go on."""
    with pair.connect("two") as connection:
        connection.autocommit = True
        [(name,)] = connection.execute("SELECT quote_ident(subname) FROM pg_subscription").fetchall()
        connection.execute(f"ALTER SUBSCRIPTION {name} {act}")


def test_behind_a_fence_the_target_has_all_rows_once_it_has_the_marker_of_the_fence():
    async def play(stage):
        await stage.fill(SLOT)
        channel = await stage.copied()
        assert (await channel.state(1)).is_drained
        stream(stage.pair, "DISABLE")
        assert await stage.pair.write("one", SLOT, {7: "late"})
        await stage.change("one", "fence")
        state = await channel.state(1)
        assert (False, 1) == (state.is_drained, state.lag)
        stream(stage.pair, "ENABLE")
        while not (await channel.state(1)).is_drained:
            await asyncio.sleep(0.001)
        assert "late" == (await stage.pair.read("two", SLOT))[7]

    played(play)


def test_while_rows_arrive_nobody_else_writes_to_the_slot():
    async def play(stage):
        await stage.fill(SLOT)
        channel = await stage.copied()
        assert not await stage.pair.write("two", SLOT, {7: "early"})
        assert await stage.pair.write("one", SLOT, {7: "right"})
        await stage.drain(channel)
        await stage.equal()

    played(play)


def test_old_rows_that_are_deleted_after_the_switch_stay_with_their_new_owner():
    async def play(stage):
        await stage.fill(*GROUP.slots)
        channel = await stage.copied()
        await stage.switch()
        await stage.clean()  # the capture has not ended yet, as after a kill
        await asyncio.sleep(0.1)
        assert 40 == len(await stage.pair.read("two", SLOT))
        await channel.uncapture(TOKEN)
        assert [] == await stage.left_behind()

    played(play)


@contextmanager
def restless(pair, key):
    """Change one row again and again within the block."""
    ended = threading.Event()

    def write():
        with pair.connect("one") as connection:
            while not ended.is_set():
                connection.execute("UPDATE place SET text = random()::text WHERE id = %s", (key,))
                connection.commit()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_row_that_never_rests_is_compared_too():
    async def play(stage):
        await stage.fill(*GROUP.slots)
        channel = await stage.copied()
        with restless(stage.pair, key_of(SLOT, 3)):
            await stage.verify(channel)
        await stage.drain(channel)
        await stage.equal()

    played(play)


def test_a_stream_that_another_program_has_ended_is_told():
    async def play(stage):
        channel = await stage.copied()
        stream(stage.pair, "DISABLE")
        with pytest.raises(InvalidInput, match="disabled"):
            await channel.apply(TOKEN)
        drop_slots(stage.pair.rig, stage.pair.name("one"))
        stream(stage.pair, "ENABLE")
        with pytest.raises(InvalidInput, match=r"replication slot apportion_move_1_\w+ of shard one is 'lost'"):
            await channel.apply(TOKEN)
        drop_subscriptions(stage.pair.rig, stage.pair.name("two"))
        with pytest.raises(InvalidInput, match="absent"):
            await channel.apply(TOKEN)
        await (await stage.shard("two")).drop(GROUP, TOKEN)
        await channel.uncapture(TOKEN)
        assert ([], []) == (await stage.left_behind(), stage.pair.catalog_names())

    played(play)


def test_no_statement_message_or_log_shows_the_password_of_a_subscription():
    async def play(stage):
        rig, place, told = stage.pair.rig, stage.pair.place("one"), []
        log = rig.folder / "server.log"
        before = log.stat().st_size
        server = ShardServer(stage.pair.place("two"))

        async def _made(connection):
            await connection.execute("SELECT set_config('log_statement', 'all', true)")
            await target.subscribe(connection, "apportion_x", "slot_x", place.address)
            running = f"SELECT query FROM pg_stat_activity WHERE pid = {connection.info.backend_pid}"
            told.extend(rig.sql(running))

        async def _failed(connection):
            unknown = place.address.replace(place.address.rpartition("/")[2], "absent")
            with pytest.raises(psycopg.OperationalError, match='database "absent" does not exist') as error:
                await target.subscribe(connection, "apportion_x", "slot_x", unknown)
            told.extend(getattr(error.value.diag, name) for name in ("context", "internal_query", "message_detail"))

        await server.rehearse(_made)
        await server.rehearse(_failed)
        await server.close()
        told.append(log.read_bytes()[before:])
        assert "DO $made$" in f"{told}"
        assert "cAnAry" not in f"{told}"

    played(play)


def test_a_copy_whose_slot_is_lost_begins_anew():
    async def play(stage):
        await stage.fill(*GROUP.slots)
        channel = await stage.prepared()
        await channel.copy(TOKEN)
        stage.pair.sql("two", "UPDATE apportion.move SET relation = 'cut' WHERE relation = 'copied'")
        stream(stage.pair, "DISABLE")
        drop_slots(stage.pair.rig, stage.pair.name("one"))
        await stage.pair.write("one", SLOT, {7: "late"})
        await stage.finish_copy(channel)
        await stage.equal()

    played(play)
