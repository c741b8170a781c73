"""`groups.admin`: each call of an operator, on two stores and in both forms, as a program writes it."""

import asyncio
import inspect
from uuid import uuid4

import pytest

from apportion.errors import BadSnapshot, InvalidInput, PlanRefused, StaleEpoch, UnknownOption, Unsafe
from apportion.groups import admin as async_admin
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import OwnershipRecord, encoded
from apportion.stores import Absent, Put, Unchanged
from apportion.sync import admin as sync_admin
from apportion.sync import open_group, open_store
from tests.console.grouping import eventually, members

KEYS = GroupKeys(group="mailers")


@pytest.fixture(params=["sqlite", "memory"])
def url(request, tmp_path):
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/work.db"
    else:
        in_memory = f"memory://{uuid4().hex[:8]}"
        with open_store(in_memory):  # or all is gone with its last member
            yield in_memory


@pytest.fixture(params=["async", "sync"])
def call(request):
    """Return a function that makes one call, and gives its answer; a list for a generator."""

    async def listed(replies):
        return [each async for each in replies]

    def call_async(name, *arguments):
        reply = getattr(async_admin, name)(*arguments)
        return asyncio.run(listed(reply) if inspect.isasyncgen(reply) else reply)

    def call_sync(name, *arguments):
        reply = getattr(sync_admin, name)(*arguments)
        return list(reply) if inspect.isgenerator(reply) else reply

    return call_async if request.param == "async" else call_sync


def damage(url, key, value):
    with open_store(url) as store:
        [item] = [each for each in store.scan(key).items if each.key == key]
        store.commit(when=[Unchanged(key=key, revision=item.revision)], puts=[Put(key=key, value=value)])


def test_a_group_is_read_with_its_members_and_owners(url, call):
    with members(None, "a", "b", url=url):
        (found,) = call("read_all", url)
        assert ("mailers", 8, {"a", "b"}) == (found.name, found.record.partitions, set(found.view.members))
        found = call("read", url, "mailers")
        assert (4, 4, True, ()) == (len(found.owned_by("a")), len(found.owned_by("b")), found.is_settled, found.unseen)


def test_a_partition_is_explained_with_its_history(url, call):
    with members(None, "a", url=url) as groups:
        with members(None, "b", url=url):
            groups["a"].wait_until_settled()
            theirs = next(each for each in range(8) if each not in groups["a"].owned)
        groups["a"].wait_until_settled()
        explained = call("explain", url, "mailers", theirs)
        history = call("history", url, "mailers", theirs)
    assert ("owned", "a", "") == (explained.standing.state, explained.standing.wanted, explained.standing.step)
    assert ["a", "b", "a"] == [each.target for each in history]
    assert history == explained.history


def test_a_drained_member_is_followed_until_it_owns_nothing(url, call):
    with members(None, "a", "b", url=url) as groups:
        with groups["b"].hold(min(groups["b"].owned)):
            assert 4 == len(call("drain", url, "mailers", "b").owned_by("b"))
            eventually(lambda: 7 == len(groups["a"].owned))
            steps = sync_admin.left_over(url, "mailers", "b")
            assert 1 == next(steps)[1]
            with open_group(url, "mailers", partitions=8, member_id="c"):
                pass  # a change that leaves the number as it is
        assert [0] == [left for _, left in steps]
        assert [0] == [left for _, left in call("left_over", url, "mailers", "b")]
        assert [] == [each for each in range(8) if each not in groups["a"].owned]


def test_a_member_is_followed_from_an_event_loop_too(url):
    async def followed(groups):
        with groups["b"].hold(min(groups["b"].owned)):
            await async_admin.drain(url, "mailers", "b")
            steps = async_admin.left_over(url, "mailers", "b")
            while (await anext(steps))[1] > 1:
                pass
        return [left async for _, left in steps]

    with members(None, "a", "b", url=url) as groups:
        assert [0] == asyncio.run(followed(groups))


def test_changes_are_watched_until_the_loop_is_left(url):
    with members(None, "a", url=url) as groups:
        lines = sync_admin.watch(url, "mailers")
        assert "begin" == next(lines).kind
        with members(None, "b", url=url):
            groups["a"].wait_until_settled()
        assert "member" == next(each.kind for each in lines if "b joined" in each.text)
        lines.close()
        with pytest.raises(StopIteration):
            next(lines)


def test_a_plan_says_the_moves_and_is_applied_once(url, call):
    with members(None, "a", "b", url=url) as groups:
        change = call("plan", url, "mailers", lambda each: each.drain("b"))
        assert (4, 4, "draining b moves 4 of 8 partitions (50.00%); the minimum") == (
            change.moved, change.least, change.summary
        )  # fmt: skip
        saved = async_admin.decode_plan(async_admin.encode_plan(change.plan))
        assert change.plan == saved
        first = call("apply", url, saved)
        assert (True, ("b",), ()) == (first.is_new, first.plan.drains, first.plan.forgets)
        assert change.moves == first.change.moves
        assert 0 == call("left_over", url, "mailers", "b")[-1][1]
        assert {} == dict(groups["b"].owned)
        assert not call("apply", url, saved).is_new


def test_a_plan_of_another_day_is_refused_and_so_is_a_what_if(url, call):
    with members(None, "a", "b", url=url) as groups:
        drained = call("plan", url, "mailers", lambda each: each.drain("b"))
        joined = call("plan", url, "mailers", lambda each: each.add("c"))
        with pytest.raises(PlanRefused, match="c joins only when its process starts"):
            call("apply", url, joined.plan)
        with members(None, "c", url=url):
            groups["a"].wait_until_settled()
            with pytest.raises(StaleEpoch, match="c joined"):
                call("apply", url, drained.plan)
        assert {} == dict(call("read", url, "mailers").view.drains)


def test_a_drain_is_withdrawn(url, call):
    with members(None, "a", "b", url=url) as groups:
        call("drain", url, "mailers", "b")
        eventually(lambda: 8 == len(groups["a"].owned))
        assert {"b"} == set(call("undrain", url, "mailers", "b").view.drains)
        eventually(lambda: 4 == len(groups["b"].owned))
        assert {} == dict(call("undrain", url, "mailers", "b").view.drains)


@pytest.mark.slow
def test_the_request_of_a_member_itself_is_not_withdrawn(url, call):
    with members(None, "a", "b", url=url):
        with open_store(url) as store:
            session = call("read", url, "mailers").view.members["b"]
            store.commit(
                when=[Unchanged(key=KEYS.member("b"), revision=session.session), Absent(key=KEYS.drain("b"))],
                puts=[Put(key=KEYS.drain("b"), value=b"leaves", lease=session.lease)],
            )
        with pytest.raises(InvalidInput, match="member is 'b', expected one that an operator drains"):
            call("undrain", url, "mailers", "b")
        assert {"b"} == set(call("read", url, "mailers").view.drains)


def test_an_absent_static_member_is_forgotten(url, call):
    with members(None, "a", url=url) as groups:
        with members(None, "b", url=url, static=True), pytest.raises(InvalidInput, match="an absent static member"):
            call("forget", url, "mailers", "b")
        assert None is call("forget", url, "mailers", "b")
        eventually(lambda: 8 == len(groups["a"].owned))


def test_a_quarantined_partition_is_released(url, call):
    with members(None, "a", url=url, quarantine_after=3):
        pass
    damage(url, KEYS.own(3), encoded(OwnershipRecord(owner="z", session=1, epoch=9, ended=(7, 8))))
    with members(None, "a", url=url, quarantine_after=3) as groups:
        assert 3 not in groups["a"].owned
        assert 3 == call("release", url, "mailers", 3)
        eventually(lambda: 3 in groups["a"].owned)
        assert 0 == call("release", url, "mailers", 3)


@pytest.mark.slow
def test_an_empty_group_is_resized_and_one_in_use_is_not(url, call):
    with members(None, "a", url=url):
        record = call("read", url, "mailers").record_revision
        with pytest.raises(Unsafe, match="in use by a"):
            call("resize", url, "mailers", 4)
        assert record == call("read", url, "mailers").record_revision
    before = call("resize", url, "mailers", 4)
    after = call("read", url, "mailers")
    assert (8, 4) == (before.record.partitions, after.record.partitions)
    assert (before.view.target.generation + 1, (None,) * 4) == (after.view.target.generation, after.view.target.owners)


def test_damaged_records_are_repaired(url, call):
    with members(None, "a", url=url) as groups:
        damage(url, KEYS.own(3), b"{}")
        eventually(lambda: 3 not in groups["a"].owned)
        repaired = call("repair", url, "mailers")
        assert (True, [KEYS.own(3)]) == (repaired.is_whole, [each.key for each in repaired.repairs])
        eventually(lambda: 3 in groups["a"].owned)
        assert () == call("repair", url, "mailers").repairs


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "words"),
    [
        ("read", ("mialers",), UnknownOption, "Did you mean 'mailers'"),
        ("read", ("mail/ers",), InvalidInput, "mail/ers"),
        ("read", (7,), InvalidInput, "name of the group"),
        ("explain", ("mailers", 8), InvalidInput, r"one of 0 \.\. 7"),
        ("history", ("mailers", -1), InvalidInput, r"one of 0 \.\. 7"),
        ("release", ("mailers", "3"), InvalidInput, r"one of 0 \.\. 7"),
        ("drain", ("mailers", "aa"), UnknownOption, "Did you mean 'a'"),
        ("drain", ("mailers", None), UnknownOption, "member is None"),
        ("undrain", ("mailers", "aa"), UnknownOption, "Did you mean 'a'"),
        ("left_over", ("mialers", "a"), UnknownOption, "Did you mean 'mailers'"),
        ("forget", ("mailers", "b"), InvalidInput, "a static member"),
        ("resize", ("mailers", 0), InvalidInput, "partitions"),
        ("resize", ("mailers", 2.5), InvalidInput, "partitions"),
        ("repair", ("mialers",), UnknownOption, "Did you mean 'mailers'"),
        ("plan", ("mailers", lambda each: each.without("z")), InvalidInput, "z"),
    ],
)
def test_bad_input_is_refused_with_a_type_and_a_hint(name, arguments, kind, words, call, tmp_path):  # noqa: PLR0917
    with members(tmp_path, "a"), pytest.raises(kind, match=words):
        call(name, f"sqlite:///{tmp_path}/work.db", *arguments)


@pytest.mark.parametrize("name", ["read", "drain", "resize", "repair", "history"])
def test_a_store_that_was_never_made_is_refused_and_none_is_made(name, call, tmp_path):
    more = {"drain": ("a",), "resize": (4,), "history": (0,)}.get(name, ())
    with pytest.raises(InvalidInput, match="an existing store"):
        call(name, f"sqlite:///{tmp_path}/none.db", "mailers", *more)
    assert [] == list(tmp_path.iterdir())


def test_a_url_that_no_store_has_is_refused(call):
    with pytest.raises(UnknownOption, match="Did you mean 'sqlite'"):
        call("read", "sqlit:///work.db", "mailers")


@pytest.mark.parametrize("data", [b"", b"{}", "text", None, b'{"apportion":"plan","format_version":1,'])
def test_bytes_that_are_no_plan_are_refused(data):
    with pytest.raises(BadSnapshot):
        async_admin.decode_plan(data)
