"""Public calls as users write them: checked by `mypy --strict`, never run."""

from array import array
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import timedelta
from typing import assert_type
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase

from apportion import (
    ApportionError,
    Assignment,
    Epoch,
    Jump,
    KeyRange,
    LaneMember,
    Modulo,
    Move,
    Node,
    Plan,
    Queue,
    Rendezvous,
    Ring,
    Slots,
    Table,
    Throttle,
    Topology,
    apply,
    balance,
    current_task,
    decode,
    encode,
    errors,
    handover,
    hashers,
    leader,
    open_group,
    open_map,
    open_shards,
    placement,
    plan,
    shards,
    sync,
)
from apportion.groups import Gained, GroupEvent, admin
from apportion.groups.admin import Found
from apportion.model import Copy, Drop, Lead, Schedule
from apportion.model.assignment import PreferenceLists
from apportion.model.epoch import FencingToken
from apportion.shards import admin as shards_admin
from apportion.shards import replicas
from apportion.shards.admin import Finding, MovesMade, PinnedKey, RangeSlot, SetSurvey
from apportion.shards.round.session import RoundSession
from apportion.sim import Sink, World
from apportion.sync import admin as sync_admin
from apportion.sync import cron_admin
from apportion.work import AsyncRunningTask, AttemptDead, AttemptEvent, Call
from apportion.work.admin import cron
from apportion.work.admin.cron import Forecast, InspectedSchedule, ScheduleChange


def topologies() -> Topology:
    topology = Topology(
        [
            Node("db-01", zone=("eu", "rack1")),
            Node("db-02", zone=("eu", "rack2")),
            Node("db-03", zone=("eu", "rack3"), weight=2),
            "db-04",
        ],
        cluster="orders",
        number=7,
    )
    assert_type(topology.nodes, tuple[Node, ...])
    assert_type(topology.ids, tuple[str, ...])
    assert_type(topology.epoch, Epoch)
    assert_type(topology["db-01"].weight, float)
    assert_type(topology.index("db-01"), int)
    assert_type("db-01" in topology, bool)
    assert_type([node.zone for node in topology], list[tuple[str, ...]])
    return topology.add("db-05", Node("db-06")).without("db-05").reweight("db-06", 0.5).drain("db-06")


def assignments(topology: Topology) -> Plan:
    before = balance.optimal(1000, 3, topology)
    after = balance.optimal(["a", "b"], 2, topology, previous=before, live=["db-01"], sizes={"a": 1, "b": 2})
    assert_type(decode(encode(after), Assignment), Assignment)
    assert_type(after["a"], tuple[str, ...])
    return plan(before, after)


def rings(topology: Topology, keys: list[str]) -> Ring:
    ring = Ring(topology)
    Ring(["a", "b", "c"], vnodes=150, hasher="xxh3-64")
    Ring((name for name in ("a", "b")), hasher=hashers.get("siphash-2-4", key=bytes(16)))
    assert_type(ring.route("tenant-42"), str)
    assert_type(ring.route(b"tenant-42"), str)
    assert_type(ring.route(42), str)
    assert_type(ring.route(UUID(int=42)), str)
    assert_type(ring.route_many(keys), list[str])
    assert_type(ring.route_indexes(keys), array[int])
    memoryview(ring.route_indexes(keys))
    assert_type(ring.preference("tenant-42", 3), tuple[str, ...])
    ring.preference("tenant-42", 3, spread_level=0, spread="best-effort")
    explanation = ring.explain("tenant-42")
    assert_type(explanation.range, KeyRange | None)
    assert_type(explanation.next, tuple[str, ...])
    assert_type(explanation.if_owner_left, str | None)
    assert_type(ring.table(3), Table)
    return ring.on(topology.add(Node("db-05", zone=("eu", "rack5"))))


def functions(topology: Topology, keys: list[str]) -> None:
    for function in (Rendezvous(topology), Jump(["c", "a"]), Modulo(topology, hasher="murmur3")):
        assert_type(function.route("k"), str)
        assert_type(function.route_many(keys), list[str])
        assert_type(function.explain("k").why, str)
    assert_type(Jump(["c", "a"]).order, tuple[str, ...])
    assert_type(Rendezvous(topology).on(topology), Rendezvous)


def schedules(before: Assignment, after: Assignment, now: float) -> None:
    throttle = Throttle(per_node=2, per_zone=4, per_cluster=8, expires_at=now + 60, then=Throttle(per_node=1))
    schedule = balance.schedule(before, after, throttle=throttle, floor=1, now=now, lost="leave")
    assert_type(schedule, Schedule)
    for wave in schedule.waves:
        for step in wave.steps:
            match step:
                case Copy():
                    assert_type(step.source, str | None)
                case Lead() | Drop():
                    assert_type(step.node, str)
    assert_type(schedule.per_node["db-01"].received_bytes, int | None)
    assert_type(balance.scores.evenness(after).leaders.peak_ratio, float)
    assert_type(balance.scores.stillness(before, after).extra, int)
    assert_type(balance.scores.zone_risk(after).worst.unavailable, int)


def slots(topology: Topology) -> Slots:
    assignment = balance.slots(topology)
    assert_type(assignment, Assignment)
    before = Slots(assignment)
    after = Slots(balance.slots(topology.without("db-01"), previous=before.assignment), hasher="crc16")
    balance.slots(topology, count=16384)
    assert_type(before.slot("k"), int)
    assert_type(assignment[0], tuple[str, ...])
    assert_type(assignment["0"], tuple[str, ...])
    assert_type(assignment.preference_lists, PreferenceLists)
    assert_type(assignment.loads, dict[str, int])
    assert_type(before.on(topology), Slots)
    Slots.of_table(before.table())
    return after


def changes(ring: Ring, bigger: Ring, keys: list[str]) -> Table:
    change = plan(ring, bigger)
    assert_type(change, Plan)
    assert_type(change.moved_ratio, float)
    assert_type(change.lower_bound_ratio, float)
    assert_type(change.fair_bound_ratio, float)
    assert_type(change.stray_ratio, float)
    assert_type(change.leader_moved_ratio, float)
    assert_type(change.moves, tuple[Move, ...])
    assert_type({node_id: node.gained_ratio for node_id, node in change.per_node.items()}, dict[str, float])
    move = change.moves[0]
    assert_type(move.source, str | None)
    assert_type(move.target, str | None)
    assert_type(move.width, int)
    plan(Rendezvous(["a"]), Rendezvous(["a", "b"]), keys)
    plan(ring, bigger, keys=(key for key in keys), replicas=3)
    plan(ring.table(), bigger)
    assert_type(handover(ring, bigger, "k", replicas=2).both, tuple[str, ...])
    return apply(change, ring.table())


def snapshots(topology: Topology, table: Table, change: Plan) -> None:
    assert_type(encode(topology), bytes)
    assert_type(decode(encode(topology), Topology), Topology)
    assert_type(decode(encode(table), Table, cluster="orders"), Table)
    assert_type(decode(encode(change), Plan), Plan)
    table.owners(0)
    for key_range, owners in table.ranges():
        assert_type(key_range, KeyRange)
        assert_type(owners, tuple[str, ...])


def catalogs() -> None:
    assert_type(placement.names(), tuple[str, ...])
    assert_type(placement.get("ring"), placement.PlacementSpec)
    built = placement.get("ring")(["a", "b"], vnodes=10)
    assert_type(built, placement.Placement)
    assert_type(built.table(), Table | None)
    assert_type(hashers.get("md5")(b"data"), int)
    assert_type(hashers.names(), tuple[str, ...])


def any_placement(each: placement.Placement) -> str:
    return each.on(each.topology.add("z")).route("k")


def every_placement_is_one(topology: Topology) -> Mapping[str, str]:
    built: dict[str, placement.Placement] = {
        "ring": Ring(topology),
        "rendezvous": Rendezvous(topology),
        "jump": Jump(topology),
        "modulo": Modulo(topology),
        "slots": Slots(balance.slots(topology)),
    }
    return {name: any_placement(each) for name, each in built.items()}


class Mine:
    """A hasher of one's own."""

    label = "mine"
    bits = 64

    @property
    def digest(self) -> hashers.Digest:
        return self.__call__

    def __call__(self, data: bytes) -> int:
        return len(data)


def failures(ring: Ring) -> str:
    Ring(["a"], hasher=Mine())
    try:
        return ring.route("k")
    except errors.UnknownOption as error:
        assert_type(error.nearest, str | None)
    except errors.InvalidInput as error:
        return error.field
    except errors.StaleEpoch as error:
        assert_type(error.retryable, bool)
    except ApportionError as error:
        return error.problem + error.hint
    return ""


async def opened(partition: int, token: FencingToken) -> None:
    print(partition, token.epoch)


def opened_without_a_loop(partition: int, token: FencingToken) -> None:
    print(partition, token.epoch)


def observed(event: GroupEvent) -> None:
    assert_type(event.as_dict(), dict[str, object])
    if isinstance(event, Gained):
        assert_type(event.partition, int)


async def groups(url: str) -> None:
    async with open_group(
        url,
        "mailers",
        partitions=256,
        member_id="worker-1",
        static=False,
        lease_ttl=timedelta(seconds=10),
        drain_timeout=timedelta(seconds=20),
        rejoin_grace=None,
        progress_deadline=None,
        balancer="optimal",
        mode="cooperative",
        weight=1.0,
        zone=(),
        labels={},
        observer=observed,
    ) as group:
        async for change in group.changes():
            assert_type(change.gained, tuple[int, ...])
            assert_type(change.lost, tuple[int, ...])
        assert_type(group.owned[17].token, FencingToken)
        async with group.hold(17) as token:
            assert_type(token, FencingToken)
        await group.wait_until_settled()
        await group.serve(on_gained=opened, on_lost=None)
        assert_type(group.failing, Mapping[int, str])
    async with leader(url, "boss", observer=observed) as election:
        assert_type(await election.wait_until_elected(), FencingToken)


def groups_in_a_world(url: str, token: FencingToken) -> None:
    with World(7) as world:
        assert_type(world, World)
        world.spawn("a", groups(url))
        world.terminate("a")
        assert_type(world.run(Sink(world).put(token, "mail")), None)


def groups_without_a_loop(url: str) -> None:
    with sync.open_group(url, "mailers", partitions=256) as group:
        for change in group.changes():
            assert_type(change.lost, tuple[int, ...])
        with group.hold("17") as token:
            assert_type(token, FencingToken)
        group.serve(on_gained=opened_without_a_loop, on_lost=None)
        group.serve(on_gained=opened)  # type: ignore[arg-type] # nobody would await it
        assert_type(group.failing, Mapping[int, str])


async def operators(url: str) -> None:
    assert_type((await admin.read(url, "mailers")).owned_by("b"), tuple[int, ...])
    assert_type((await admin.explain(url, "mailers", 17)).standing.step, str)
    change = await admin.plan(url, "mailers", lambda members: members.drain("b"))
    assert_type((await admin.apply(url, change.plan)).is_new, bool)
    assert_type(await admin.release(url, "mailers", 17), int)
    async for group, left in admin.left_over(url, "mailers", "b"):
        assert_type((group, left), tuple[Found, int])
    await admin.drain(url, "mailers", 17)  # type: ignore[arg-type] # a member has a name


def operators_without_a_loop(url: str) -> None:
    assert_type(sync_admin.drain(url, "mailers", "b"), Found)
    assert_type(sync_admin.undrain(url, "mailers", "b"), Found)
    for line in sync_admin.watch(url, "mailers"):
        assert_type(line.text, str)
    assert_type(sync_admin.repair(url, "mailers").is_whole, bool)


async def tasks(url: str) -> None:
    queue = Queue(url, "mail")

    @queue.around
    async def timed() -> AsyncIterator[None]:
        yield

    @queue.around
    def connected() -> Iterator[None]:
        yield

    @queue.task(keep_result=True)
    async def send(to: str, *, body: str = "") -> int:
        task = current_task()
        assert_type(task, AsyncRunningTask)
        assert_type(await task.progress(0.4), None)
        return len(to + body)

    def observe(event: AttemptEvent) -> None:
        if isinstance(event, AttemptDead):
            assert_type(event.reason, str)

    assert_type(send.call("ann", body="hi"), Call)
    send.call(7)  # type: ignore[arg-type]
    assert_type(await send("ann"), int)
    handle = await queue.enqueue(send.call("ann"), unique="ann")
    assert_type(handle.id, str)
    async with queue.worker(concurrency=10, observer=observe):
        assert_type(await handle.cancel(), bool)
    assert_type(queue.sync, sync.Queue)


async def keyed_tasks(url: str) -> None:
    queue = Queue(url, "mail", partitions=64, group_url="etcd://127.0.0.1")

    @queue.task()
    async def send(to: str) -> None:
        assert_type(current_task().key, str | None)
        assert_type(current_task().key_token, FencingToken | None)

    await queue.enqueue(send.call("ann"), key="tenant-42", on_dead="block")
    await queue.enqueue_many([send.call("ann").options(key="tenant-42")])
    async with queue.worker(member=LaneMember(member_id="mail-1", static=True, weight=2.0)):
        assert_type(queue.partitions, int | None)


async def operators_of_schedules(url: str) -> None:
    assert_type(await cron.schedules(url, "reports"), tuple[InspectedSchedule, ...])
    assert_type(await cron.apply(Queue(url, "reports")), tuple[ScheduleChange, ...])
    assert_type(await cron.forecast(url, "reports", "report", most=3), Forecast)
    assert_type(cron_admin.plan(sync.Queue(url, "reports")), tuple[ScheduleChange, ...])
    assert_type(cron_admin.run_now(url, "reports", "report"), str)
    cron_admin.pause(url, "reports")  # type: ignore[call-arg] # one schedule, by its name


def plain_tasks(url: str) -> None:
    queue = sync.Queue(url, "mail")

    @queue.task()
    def send(to: str) -> None:
        task = sync.current_task()
        assert_type(task, sync.SyncRunningTask)
        task.progress(0.4)
        assert_type(task.token, FencingToken)

    assert_type(queue.enqueue(send.call("ann")), sync.SyncTaskHandle)
    with queue.worker(concurrency=10) as worker:
        worker.until_drained()
    assert_type(queue.drain().done, int)


def identifiers_of_rows() -> None:
    assert_type(shards.slot_of(shards.new_id(4094)), int)
    shards.slot_of("0193754a-1c00-83ff-a123-456789abcdef")  # type: ignore[arg-type] # a UUID


async def maps(url: str, topology: Topology) -> None:
    await replicas.create(url, "flags", copies={"dc1": 3}, topology=topology, urls={"a": "sqlite:////srv/a.db"})
    async with open_map(url, "flags", consistency="local_quorum", datacenter="dc1") as flags:
        assert_type(await flags.put("checkout", b"on", ttl=timedelta(hours=1)), replicas.EntryVersion)
        assert_type(await flags.get("checkout"), replicas.MapEntry | None)
        assert_type(await flags.delete("checkout", consistency="all"), replicas.EntryVersion)
        assert_type(await flags.get_many(["a"]), dict[str, replicas.MapEntry | ApportionError | None])
        assert_type(flags.replicas_of("checkout"), tuple[str, ...])
        await flags.put("checkout", "on")  # type: ignore[arg-type] # a text
        await flags.get("checkout", consistency="most")  # type: ignore[arg-type] # no level
    with sync.open_map(url, "flags") as plain:
        assert_type(plain.put_many({"a": b"1"}), dict[str, replicas.EntryVersion | ApportionError])


async def jobs_of_shards(url: str, base: type[DeclarativeBase], model: type[DeclarativeBase]) -> None:
    async with open_shards(url, "world", base=base) as router:
        async for part in router.each(read_only=True, parallel=4):
            assert_type(part.id, str)
            assert_type(part.slots, tuple[int, ...])
            assert_type(part.session, AsyncSession)
        async for key in router.keys(model):
            async with router.session(key) as session:
                assert_type(session, AsyncSession)


def sync_jobs_of_shards(url: str, base: type[DeclarativeBase], model: type[DeclarativeBase]) -> None:
    with sync.open_shards(url, "world", base=base) as router:
        for part in router.each():
            assert_type(part.session, RoundSession)
        for key in router.keys(model):
            router.run(key, lambda session: session.flush())


async def operators_of_shards(url: str, base: type[DeclarativeBase]) -> None:
    assert_type(await shards_admin.survey({"one": "sqlite:///one.db"}, base=base), SetSurvey)
    await shards_admin.add(url, "world", {"two": "sqlite:///two.db"}, base=base, stride=False)
    assert_type(await shards_admin.doctor(url, "world", base=base, is_whole=True), tuple[Finding, ...])
    pinned = await shards_admin.pin(url, "world", ["acme", 7, UUID(int=1), ("FR", 2000)], base=base)
    assert_type(pinned, tuple[PinnedKey, ...])
    assert_type(await shards_admin.split(url, "world", 0, "m", base=base, to="two"), RangeSlot)
    assert_type(await shards_admin.merge(url, "world", 0, 1), RangeSlot)
    assert_type(await shards_admin.apply(url, "world", await shards_admin.plan(url, "world", to="two")), MovesMade)
    assert_type(await shards_admin.pause(url, "world"), int)
    migrated = await shards_admin.migrate(url, "world", config="alembic.ini", to="head", canary="two", parallel=2)
    assert_type(migrated.shards[0].revision, str)
    await shards_admin.init(url, "world", ["sqlite:///one.db"], base=base)  # type: ignore[arg-type] # an id for each
