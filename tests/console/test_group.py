"""`apportion group`: what an operator sees of a group with real members, does to it, and is refused."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from apportion.console.main import GROUP_COMMANDS
from apportion.errors import InvalidInput, NotOwner, Unsafe
from apportion.groups.admin.acts import resize
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import MemberRecord, OwnershipRecord, decoded, decoded_target, encoded
from apportion.stores import Absent, Committed, Put
from apportion.stores.catalog import opened
from tests.console.grouping import URL, eventually, item_of, members, write
from tests.console.running import COMMAND, refused, run

KEYS = GroupKeys(group="mailers")
READING = {"show": (), "explain": ("0",), "plan": (), "drain": ("a",), "undrain": ("a",), "forget": ("a",),
           "release": ("0",), "repair": (), "resize": ("4",), "top": (), "watch": ()}  # fmt: skip


def printed(*arguments, folder, code=0):
    done = run("group", *arguments, folder=folder)
    assert code == done.returncode, done.stderr.decode()
    return done.stdout.decode()


def said(*arguments, folder, code=0):
    document = json.loads(printed(*arguments, "--json", folder=folder, code=code))
    assert (1, f"group {arguments[0]}") == (document["format_version"], document["command"])
    return document


def complaint(*arguments, folder):
    return refused(run("group", *arguments, folder=folder))


def test_ls_names_groups_with_partitions_and_members(tmp_path):
    with members(tmp_path, "a", "b"), members(tmp_path, "a", group="crawl", partitions=3):
        text = printed("ls", URL, folder=tmp_path)
        assert [["crawl", "3", "1", "yes"], ["mailers", "8", "2", "yes"]] == [
            line.split() for line in text.splitlines()[2:4]
        ]
        assert text.endswith("group ls: sqlite:///work.db: 2 groups\n")
        (_, mailers) = said("ls", URL, folder=tmp_path)["groups"]
    assert {
        "group": "mailers", "partitions": 8, "mode": "cooperative", "balancer": "optimal", "members": 2, "settled": True
    } == mailers  # fmt: skip


@pytest.mark.slow
def test_show_says_who_is_there_and_that_all_is_well(tmp_path):
    with members(tmp_path, "a", "b"):
        text = printed("show", URL, "mailers", folder=tmp_path)
        rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.startswith(("a ", "b "))}
        assert ["4", "4", "there"] == rows["b"][-3:]
        assert "partition " not in text
        assert "8 partitions, 2 members, controller a (term" in text
        assert text.endswith("settled\n")
        every = printed("show", URL, "mailers", "--all", folder=tmp_path)
        assert 8 == sum(line.endswith("owned") for line in every.splitlines())
        document = said("show", URL, "mailers", folder=tmp_path)
    assert [4, 4] == [each["owned"] for each in document["members"]]
    assert ["a"] * 4 + ["b"] * 4 == sorted(each["owner"] for each in document["owners"])
    assert (True, 0, [], "a") == (
        document["settled"], document["unsettled"], document["remarks"], document["controller"]["member"]
    )  # fmt: skip


def test_show_of_a_group_that_all_have_left(tmp_path):
    with members(tmp_path, "a"):
        pass
    text = printed("show", URL, "mailers", folder=tmp_path)
    assert "note: no live member" in text
    assert "0 members, no controller" in text
    assert "8 unowned" in text


def test_explain_tells_the_step_and_the_way_there(tmp_path):
    with members(tmp_path, "a") as first:
        with members(tmp_path, "b"):
            first["a"].wait_until_settled()
            theirs = next(each for each in range(8) if each not in first["a"].owned)
            text = printed("explain", URL, "mailers", theirs, folder=tmp_path)
            assert text == printed("why", URL, "mailers", theirs, folder=tmp_path)
        assert "step        none: it is with its intended owner" in text
        assert ["nobody -> a: claim: nobody owned it", "a -> b: target 2"] == [
            line.partition(": ")[2] for line in text.splitlines() if line.startswith("  revision")
        ]
        document = said("explain", URL, "mailers", theirs, folder=tmp_path)
    assert ["a", "b", "a"] == [each["target"] for each in document["history"]]
    assert "drain: it leaves" == document["history"][-1]["why"]
    assert ("owned", True, 3) == (document["state"], document["settled"], document["epoch"])


@pytest.mark.slow
def test_a_drained_member_owns_nothing_and_stays(tmp_path):
    with members(tmp_path, "a", "b") as groups:
        text = printed("drain", URL, "mailers", "b", folder=tmp_path)
        assert text.startswith("b owns 4 of 8 partitions\n")
        assert text.endswith("b owns 0 of 8 partitions\ngroup drain: b owns nothing now\n")
        assert {} == dict(groups["b"].owned)
        eventually(lambda: len(groups["a"].owned) == 8)
        assert 0 == said("drain", URL, "mailers", "b", folder=tmp_path)["owned"]
        states = {each["member"]: each["state"] for each in said("show", URL, "mailers", folder=tmp_path)["members"]}
    assert {"a": "there", "b": "drains"} == states


@pytest.mark.slow
def test_a_drain_is_withdrawn_and_the_member_owns_partitions_again(tmp_path):
    with members(tmp_path, "a", "b") as groups:
        printed("drain", URL, "mailers", "b", folder=tmp_path)
        assert "group undrain: b gets partitions again\n" == printed("undrain", URL, "mailers", "b", folder=tmp_path)
        eventually(lambda: 4 == len(groups["b"].owned))
        assert not said("undrain", URL, "mailers", "b", folder=tmp_path)["was_asked"]
        text = printed("undrain", URL, "mailers", "b", folder=tmp_path)
        assert "group undrain: b does not drain: nothing to do\n" == text


@pytest.mark.slow
def test_a_drain_that_is_held_up_is_explained_and_need_not_be_waited_for(tmp_path):
    with members(tmp_path, "a", "b") as groups:
        partition = min(groups["b"].owned)
        with groups["b"].hold(partition):
            assert "group drain: b is asked for 4 partitions" in printed(
                "drain", URL, "mailers", "b", "--no-wait", folder=tmp_path
            )
            eventually(lambda: len(groups["a"].owned) == 7)
            document = said("explain", URL, "mailers", partition, folder=tmp_path)
            assert "waiting for b, which drains, to release it; then it goes to a" == document["step"]
            assert "drain_timeout" in document["advice"]
            text = printed("show", URL, "mailers", folder=tmp_path)
            assert "owned, not settled" in text
            assert text.endswith("1 not settled\n")
        eventually(lambda: len(groups["a"].owned) == 8)


@pytest.mark.slow
def test_watch_tells_each_change_and_ctrl_c_ends_it(tmp_path):
    with members(tmp_path, "a"):
        watching = [
            subprocess.Popen([*COMMAND, "group", "watch", URL, "mailers", *more], cwd=tmp_path, stdout=subprocess.PIPE)
            for more in ((), ("--json",))
        ]
        lines = {each: [] for each in watching}
        readers = [
            threading.Thread(target=lambda each=each: lines[each].extend(each.stdout), daemon=True) for each in watching
        ]
        for reader in readers:
            reader.start()
        eventually(lambda: all(lines.values()))
        with members(tmp_path, "last"):
            eventually(lambda: all(any(b"a -> last: 4 partitions" in line for line in told) for told in lines.values()))
        for each in watching:
            each.send_signal(signal.SIGINT)
            assert 0 == each.wait(10)
    for reader in readers:
        reader.join(10)
    text, documents = lines[watching[0]], [json.loads(line) for line in lines[watching[1]]]
    assert b"watching mailers from here" in text[0]
    assert any(b"last joined (session" in line for line in text)
    assert {(1, "group watch", "mailers")} == {
        tuple(each[name] for name in ("format_version", "command", "group")) for each in documents
    }
    move = next(each for each in documents if each["kind"] == "move" and each.get("target") == "last")
    assert ("a", 4, True) == (move["source"], len(move["partitions"]), move["why"].startswith("target "))


def test_a_plan_says_how_few_would_move(tmp_path):
    with members(tmp_path, "a", "b", "c", partitions=60):
        assert "group plan: no change of members moves 0 of 60 partitions (0.00%); the minimum" in printed(
            "plan", URL, "mailers", folder=tmp_path
        )
        text = printed("plan", URL, "mailers", "--add", "d", folder=tmp_path, code=2)
        assert text.endswith("group plan: adding d moves 15 of 60 partitions (25.00%); the minimum\n")
        document = said("plan", URL, "mailers", "--remove", "c", folder=tmp_path, code=2)
        assert (20, 20, True) == (document["moved"], document["least_moves"], document["pending"])
        assert 20 == len(document["moves"])
        assert {"a": (20, 30), "b": (20, 30), "c": (20, 0)} == {
            each["member"]: (each["before"], each["after"]) for each in document["members"]
        }
        heavy = said("plan", URL, "mailers", "--weight", "a=2", folder=tmp_path, code=2)
        assert (10, 10) == (heavy["moved"], heavy["least_moves"])
        drained = printed("plan", URL, "mailers", "--drain", "a,b,c", folder=tmp_path, code=2)
        assert "60 would have no owner" in drained


def test_a_plan_is_what_happens(tmp_path):
    with members(tmp_path, "a", "b", partitions=64) as groups:
        planned = said("plan", URL, "mailers", "--add", "c", folder=tmp_path, code=2)
        with members(tmp_path, "c", partitions=64) as more:
            groups["a"].wait_until_settled()
            assert {each["partition"] for each in planned["moves"]} == set(more["c"].owned)


def test_a_group_that_is_not_well_has_moves_pending(tmp_path):
    with members(tmp_path, "a"):
        pass
    document = said("plan", URL, "mailers", "--add", "a", folder=tmp_path, code=2)
    assert (0, 8) == (document["moved"], len(document["moves"]))
    assert "8 get a first owner" in document["summary"]


@pytest.mark.slow
def test_a_quarantined_partition_is_owned_again_once_it_is_released(tmp_path):
    with members(tmp_path, "a", quarantine_after=3):
        pass
    before = decoded(OwnershipRecord, item_of(tmp_path, KEYS.own(3)).value)
    died = OwnershipRecord(owner="z", session=before.session, epoch=before.epoch + 1, ended=(7, 8))
    write(tmp_path, KEYS.own(3), encoded(died))
    with members(tmp_path, "a", quarantine_after=3) as groups:
        assert 3 not in groups["a"].owned
        assert 1 == groups["a"].sight().quarantined
        with pytest.raises(NotOwner, match="3 sessions in a row ended while they owned it; it is in quarantine"):
            groups["a"].token(3)
        text = printed("show", URL, "mailers", folder=tmp_path)
        assert "quarantined" in text
        assert "settled" in text
        assert "apportion group release URL mailers 3" in printed("explain", URL, "mailers", 3, folder=tmp_path)
        assert "partition 3 of mailers: 3 deaths are forgiven" in printed("release", URL, "mailers", 3, folder=tmp_path)
        eventually(lambda: 3 in groups["a"].owned)
        assert groups["a"].owned[3].token.epoch == before.epoch + 3
        assert 0 == said("release", URL, "mailers", 3, folder=tmp_path)["deaths_before"]
        assert "nothing to do" in printed("release", URL, "mailers", 3, folder=tmp_path)


def test_members_that_do_not_agree_on_quarantine_are_refused(tmp_path):
    agreed = pytest.raises(InvalidInput, match="quarantine_after of group")
    with members(tmp_path, "a", quarantine_after=3), agreed, members(tmp_path, "b"):
        pass


@pytest.mark.slow
def test_a_static_member_that_is_forgotten_is_not_waited_for(tmp_path):
    with members(tmp_path, "a") as groups:
        with members(tmp_path, "b", static=True):
            groups["a"].wait_until_settled()
            assert "an absent static member" in complaint("forget", URL, "mailers", "b", folder=tmp_path)
        assert 4 == len(groups["a"].owned)
        theirs = next(each for each in range(8) if each not in groups["a"].owned)
        step = said("explain", URL, "mailers", theirs, folder=tmp_path)
        assert "the controller keeps the place of a static member for 60 s" in step["step"]
        text = printed("show", URL, "mailers", folder=tmp_path)
        assert ["b", "1", "0", "4", "away"] in [line.split() for line in text.splitlines()]
        assert "Did you mean 'b'" in complaint("forget", URL, "mailers", "bb", folder=tmp_path)
        plan = printed("plan", URL, "mailers", "--remove", "b", folder=tmp_path, code=2)
        assert "note: to forget b cannot be undone" in plan
        before, after = printed("forget", URL, "mailers", "b", folder=tmp_path).splitlines()
        assert "group forget: this cannot be undone; if b comes back, it joins as a new member" == before
        assert "group forget: mailers no longer waits for b, and this cannot be undone" == after
        eventually(lambda: len(groups["a"].owned) == 8)


@pytest.mark.slow
def test_a_group_is_resized_when_nobody_is_in_it_and_no_epoch_goes_back(tmp_path):
    with members(tmp_path, "a") as groups:
        before = {partition: held.token.epoch for partition, held in groups["a"].owned.items()}
        text = complaint("resize", URL, "mailers", "4", folder=tmp_path)
        assert "group mailers is in use by a." in text
        assert "A killed member" in text
    assert "mailers has 4 partitions now; it had 8" in printed("resize", URL, "mailers", "4", folder=tmp_path)
    assert (None,) * 4 == decoded_target(item_of(tmp_path, KEYS.target).value).owners
    assert "expected one of 0 .. 3" in complaint("explain", URL, "mailers", "7", folder=tmp_path)
    with members(tmp_path, "a", partitions=4) as groups:
        assert {0, 1, 2, 3} == set(groups["a"].owned)
        assert said("show", URL, "mailers", folder=tmp_path)["settled"]
    document = said("resize", URL, "mailers", "16", folder=tmp_path)
    assert (4, 16) == (document["before"], document["after"])
    with members(tmp_path, "a", partitions=16) as groups:
        after = {partition: held.token.epoch for partition, held in groups["a"].owned.items()}
    assert 16 == len(after)
    assert all(after[partition] > epoch for partition, epoch in before.items())


class JoinedMeanwhile:
    """A store in which a member joins right before the first commit."""

    def __init__(self, store):
        self._store, self._has_joined = store, False

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def commit(self, **request):
        if not self._has_joined:
            self._has_joined = True
            lease, key = await self._store.grant(ttl_seconds=5), KEYS.member("late")
            put = Put(key=key, value=encoded(MemberRecord(nonce="n")), lease=lease.id)
            assert isinstance(await self._store.commit(when=[Absent(key=key)], puts=[put]), Committed)
        return await self._store.commit(**request)


def test_a_member_that_joins_while_a_group_is_resized_has_it_undone(tmp_path):
    async def resized():
        async with opened(f"sqlite:///{tmp_path}/work.db") as store:
            await resize(JoinedMeanwhile(store), "mailers", 4, "the store")

    with members(tmp_path, "a"):
        pass
    before = [item_of(tmp_path, key).value for key in (KEYS.record, KEYS.target)]
    with pytest.raises(Unsafe, match="group mailers is in use by late"):
        asyncio.run(resized())
    assert before == [item_of(tmp_path, key).value for key in (KEYS.record, KEYS.target)]


def test_to_resize_to_what_is_so_is_no_change(tmp_path):
    with members(tmp_path, "a"):
        pass
    before = item_of(tmp_path, KEYS.target)
    printed("resize", URL, "mailers", "8", folder=tmp_path)
    assert before == item_of(tmp_path, KEYS.target)


@pytest.mark.slow
def test_watching_a_store_buries_those_who_were_killed(tmp_path):
    """A group whose only member was killed can be resized once its lease was seen to end; what is removed is freed."""
    code = (
        "import sys; from datetime import timedelta; from apportion.sync import open_group\n"
        "ttl = timedelta(seconds=0.5)\n"
        f"with open_group({URL!r}, 'mailers', partitions=8, member_id='a', lease_ttl=ttl) as group:\n"
        "    group.wait_until_settled(); print('ready', flush=True); sys.stdin.read()"
    )
    member = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert b"ready\n" == member.stdout.readline()
    member.kill()
    member.wait()
    text = printed("show", URL, "mailers", folder=tmp_path)
    assert "note: no member was seen to renew while we looked, for 0.2 s" in text
    assert text.rstrip().endswith("target 1, no renewal was seen")
    shown = said("show", URL, "mailers", folder=tmp_path)
    assert (["a"], False) == (shown["unseen"], shown["settled"])
    assert "in use by a" in complaint("resize", URL, "mailers", "4", folder=tmp_path)
    watch = subprocess.Popen([*COMMAND, "group", "watch", URL, "mailers"], cwd=tmp_path, stdout=subprocess.PIPE)
    assert any(b"a is gone" in line and b"its lease ended" in line for line in watch.stdout)
    os.kill(watch.pid, signal.SIGINT)
    assert 0 == watch.wait(10)
    epochs = {each: decoded(OwnershipRecord, item_of(tmp_path, KEYS.own(each)).value).epoch for each in range(8)}
    printed("resize", URL, "mailers", "4", folder=tmp_path)
    owned = [decoded(OwnershipRecord, item_of(tmp_path, KEYS.own(each)).value) for each in range(8)]
    assert ["a"] * 4 + [None] * 4 == [each.owner for each in owned]
    assert all(owned[each].epoch > epochs[each] for each in range(4, 8))


@pytest.mark.parametrize("command", READING)
def test_an_unknown_group_names_the_nearest_and_no_store_is_made(command, tmp_path):
    text = complaint(command, URL, "mailers", *READING[command], folder=tmp_path)
    assert "an existing store" in text
    assert [] == list(tmp_path.iterdir())
    with members(tmp_path, "a"):
        assert "Did you mean 'mailers'?" in complaint(command, URL, "mailrs", *READING[command], folder=tmp_path)
        assert "without /" in complaint(command, URL, "mail/ers", *READING[command], folder=tmp_path)


def test_a_store_without_groups_says_so(tmp_path):
    run("store", "upgrade", URL, folder=tmp_path)
    assert "This store holds no group" in complaint("show", URL, "mailers", folder=tmp_path)
    assert "group ls: sqlite:///work.db: 0 groups\n" == printed("ls", URL, folder=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("drain", "worker-2"), "Did you mean 'worker-1'?"),
        (("undrain", "worker-2"), "Did you mean 'worker-1'?"),
        (("forget", "worker-2"), "no absent static member"),
        (("explain", "8"), "expected one of 0 .. 7"),
        (("why", "-1"), "expected one of 0 .. 7"),
        (("release", "8"), "expected one of 0 .. 7"),
        (("release", "one"), "one"),
        (("resize", "0"), "expected a whole number in 1 .. 262144"),
        (("plan", "--remove", "worker-2"), "Did you mean 'worker-1'?"),
        (("plan", "--add", "worker-1"), "worker-1"),
        (("plan", "--weight", "worker-1=heavy"), "a number"),
    ],
)
def test_names_and_numbers_that_are_not_there_are_refused(arguments, words, tmp_path):
    with members(tmp_path, "worker-1"):
        assert words in complaint(arguments[0], URL, "mailers", *arguments[1:], folder=tmp_path)


def test_nobody_can_be_drained_where_nobody_is(tmp_path):
    with members(tmp_path, "a"):
        pass
    assert "Group mailers has no live member now." in complaint("drain", URL, "mailers", "a", folder=tmp_path)


@pytest.mark.parametrize("command", [*READING, "ls", "run"])
def test_a_bad_url_is_refused_without_its_password(command, tmp_path):
    assert set(GROUP_COMMANDS) == {*READING, "apply", "ls", "run"}
    more = ("mailers", *READING.get(command, ())) if command != "ls" else ()
    more += ("--partitions", "4", "--", "true") if command == "run" else ()
    for url in ("sqlit:///work.db", "redis://worker:S3cr3t@127.0.0.1:1/0", "postgresql://w:S3cr3t@127.0.0.1:1/x"):
        text = complaint(command, url, *more, folder=tmp_path)
        assert "S3cr3t" not in text
        assert "Did you mean 'sqlite'?" in text or "://127.0.0.1:1" in text


@pytest.mark.parametrize("command", [*GROUP_COMMANDS, "why"])
def test_every_command_explains_itself(command, tmp_path):
    assert f"Usage: apportion group {command}" in printed(command, "--help", folder=tmp_path)
