"""A bad record costs itself, on a real SQLite file: members that share partitions, a newcomer, and the command."""

import json
import logging
import sqlite3
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta

import pytest

from apportion import Ring
from apportion.errors import InvalidInput, NotOwner
from apportion.groups.admin import found
from apportion.groups.admin.repair import mend
from apportion.groups.view.fields import MOST
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import OwnershipRecord, Target, decoded, decoded_target, encoded, encoded_target
from apportion.sync import open_group, publish
from tests.console.grouping import URL, delete, eventually, item_of, members, write
from tests.console.running import run
from tests.groups.malformed import mixed

KEYS, PARTITIONS = GroupKeys(group="mailers"), 8
TABLES = "table/"
TTL = timedelta(seconds=2)


def damaged(folder):
    done = run("group", "show", URL, "mailers", "--json", folder=folder)
    return {each["key"]: each["problem"] for each in json.loads(done.stdout)["damaged"]}


def repaired(folder):
    done = run("group", "repair", URL, "mailers", "--json", folder=folder)
    assert 0 == done.returncode, done.stderr
    return {each["key"]: each["done"] for each in json.loads(done.stdout)["repaired"]}


def by_hand(folder, key, value):
    """Write into the file as an operator does with the shell of SQLite."""
    with closing(sqlite3.connect(folder / "work.db", timeout=5, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE meta SET revision = revision + 1")
        [(revision,)] = connection.execute("SELECT revision FROM meta")
        connection.execute("REPLACE INTO item VALUES (?, ?, ?, NULL)", (key, value, revision))
        connection.execute("INSERT INTO event (revision, key, value) VALUES (?, ?, ?)", (revision, key, value))
        connection.execute("COMMIT")


def held(groups):
    return sorted(partition for each in groups.values() for partition in each.owned)


def seen_damaged(groups):
    view = groups["a"]._participation.driver.view
    return {each for each in range(PARTITIONS) if view.is_damaged(each)}


def share_all_but_damaged(groups, *members):
    """Whether all that is not damaged is owned once, and each of these has some."""
    rest = sorted(set(range(PARTITIONS)) - seen_damaged(groups))
    return held(groups) == rest and all(groups[each].owned for each in members)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "count"), [(1, 16), pytest.param(2, 200, marks=pytest.mark.soak)])
def test_of_malformed_records_on_sqlite_each_costs_itself_alone(seed, count, tmp_path):
    survived = 0
    with members(tmp_path, "a", "b", "c", partitions=PARTITIONS, lease_ttl=TTL) as groups:
        for key, value, _ in mixed(seed, count, group="mailers", members=tuple("abc"), partitions=PARTITIONS):
            write(tmp_path, key, value)
            eventually(lambda: share_all_but_damaged(groups, "a", "b", "c"))
            with ExitStack() as stack:
                url = f"sqlite:///{tmp_path}/work.db"
                newcomer = open_group(url, "mailers", partitions=PARTITIONS, member_id="n", lease_ttl=TTL)
                with_newcomer = groups | {"n": stack.enter_context(newcomer)}
                eventually(lambda: share_all_but_damaged(with_newcomer, "n"))  # noqa: B023 - called at once
            repaired(tmp_path)
            eventually(lambda: held(groups) == list(range(PARTITIONS)))
            survived += 1
    assert count == survived
    print(f"{survived} of {count} malformed records survived on SQLite (seed {seed})")


@pytest.mark.slow
def test_a_damaged_partition_is_shown_logged_once_and_repaired_under_an_epoch_never_given(tmp_path, caplog):
    caplog.set_level(logging.ERROR, "apportion.group")
    with members(tmp_path, "a", partitions=PARTITIONS) as groups:
        group = groups["a"]
        write(tmp_path, KEYS.own(3), b"{}")
        eventually(lambda: 3 not in group.owned)
        group.wait_until_settled()  # it is not waited for
        assert held(groups) == [0, 1, 2, 4, 5, 6, 7]
        with pytest.raises(NotOwner, match="its record is damaged; repair it with: apportion group repair"):
            group._participation.token(3)
        assert 1 == sum("own/3 is damaged" in each.getMessage() for each in caplog.records)
        assert {KEYS.own(3)} == set(damaged(tmp_path))
        text = run("group", "show", URL, "mailers", folder=tmp_path).stdout.decode()
        assert "damaged: live/mailers/own/3: owner of OwnershipRecord is None, expected a record that has it." in text
        assert "1 damaged, settled" in text
        before = item_of(tmp_path, KEYS.own(3)).revision
        done = run("group", "repair", URL, "mailers", folder=tmp_path).stdout.decode()
        assert done.endswith("group repair: mailers: 1 record repaired\n")
        eventually(lambda: 3 in group.owned)
        assert group.owned[3].token.epoch > before
        assert (
            b"group repair: mailers: no record is damaged\n"
            == run("group", "repair", URL, "mailers", folder=tmp_path).stdout
        )


def test_a_deleted_ownership_record_is_found_though_nothing_came_later(tmp_path):
    with members(tmp_path, "a", partitions=PARTITIONS) as groups:
        delete(tmp_path, KEYS.own(3))
        assert {KEYS.own(3)} == set(repaired(tmp_path))
        eventually(lambda: held(groups) == list(range(PARTITIONS)))


def test_an_ownership_record_that_was_deleted_is_repaired_and_so_is_all_else(tmp_path):
    with members(tmp_path, "a", partitions=PARTITIONS) as groups:
        before = item_of(tmp_path, KEYS.own(3)).revision
        delete(tmp_path, KEYS.own(3))
        eventually(lambda: 3 not in groups["a"].owned)
        write(tmp_path, KEYS.own(5), b"?")
        eventually(lambda: 5 not in groups["a"].owned)
        assert {KEYS.own(3), KEYS.own(5)} == set(repaired(tmp_path))
        eventually(lambda: held(groups) == list(range(PARTITIONS)))
        assert groups["a"].owned[3].token.epoch > before


def test_a_target_of_the_last_generation_is_written_anew_once(tmp_path):
    with members(tmp_path, "a", partitions=PARTITIONS) as groups:
        target = replace(decoded_target(item_of(tmp_path, KEYS.target).value), generation=MOST)
        write(tmp_path, KEYS.target, encoded_target(target))
        eventually(lambda: decoded_target(item_of(tmp_path, KEYS.target).value).generation < MOST)
        mended = item_of(tmp_path, KEYS.target).revision
        groups["a"].wait_until_settled()
        write(tmp_path, KEYS.own(3), b"?")
        eventually(lambda: 3 not in groups["a"].owned)
        assert mended == item_of(tmp_path, KEYS.target).revision


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"), [(b'"ids":["a","b"]', b'"ids":["a","q"]'), (b'"paused":false', b'"paused":true'), (b"{", b" {")]
)
def test_a_target_that_still_reads_but_is_not_as_it_was_written_is_written_anew(old, new, tmp_path):
    with members(tmp_path, "a", "b", partitions=PARTITIONS) as groups:
        good = item_of(tmp_path, KEYS.target).value
        assert old in good
        write(tmp_path, KEYS.target, good.replace(old, new, 1))
        eventually(lambda: item_of(tmp_path, KEYS.target).value not in (good, good.replace(old, new, 1)))
        for each in groups.values():
            each.wait_until_settled()
        assert decoded_target(good).owners == decoded_target(item_of(tmp_path, KEYS.target).value).owners
        assert (list(range(PARTITIONS)), {}) == (held(groups), damaged(tmp_path))


@pytest.mark.parametrize("target", [b"\xff", encoded_target(Target(generation=1, digest="d", owners=("a",) * 4))])
def test_repair_finds_the_number_of_partitions_though_group_record_and_target_are_damaged_together(target, tmp_path):
    with members(tmp_path, "a", partitions=PARTITIONS, lease_ttl=TTL) as groups:
        good = item_of(tmp_path, KEYS.record).value
        write(tmp_path, KEYS.record, good.replace(b'"partitions":8', b'"partitions":6'))
        write(tmp_path, KEYS.target, target)
        assert "written anew: 8 partitions, cooperative, optimal" == repaired(tmp_path)[KEYS.record]
        assert good == item_of(tmp_path, KEYS.record).value
        write(tmp_path, KEYS.member("a"), b"?")
        eventually(lambda: groups["a"]._participation.driver.statistics.sessions > 1)
        eventually(lambda: held(groups) == list(range(PARTITIONS)))
        assert {} == damaged(tmp_path)


@pytest.mark.parametrize("name", [b"own/\xff", b"member/\xe4", b"\xff"])
def test_a_key_that_is_no_text_costs_nothing(name, tmp_path):
    with members(tmp_path, "a", partitions=PARTITIONS) as groups:
        by_hand(tmp_path, b"apportion/live/mailers/" + name, b"{}")
        write(tmp_path, KEYS.own(3), b"?")
        eventually(lambda: held(groups) == [0, 1, 2, 4, 5, 6, 7])  # which comes after it
        assert {KEYS.own(3)} == set(repaired(tmp_path))
        with open_group(f"sqlite:///{tmp_path}/work.db", "mailers", partitions=PARTITIONS, member_id="n") as newcomer:
            newcomer.wait_until_settled()
            assert list(range(PARTITIONS)) == held(groups | {"n": newcomer})
        assert 1 == groups["a"]._participation.driver.statistics.sessions


def test_a_record_that_an_operator_wrote_as_text_of_sqlite_is_read_as_its_bytes(tmp_path):
    with members(tmp_path, "a", partitions=PARTITIONS) as groups:
        by_hand(tmp_path, f"apportion/{KEYS.own(3)}".encode(), "{}")
        eventually(lambda: held(groups) == [0, 1, 2, 4, 5, 6, 7])
        assert {KEYS.own(3)} == set(repaired(tmp_path))
        eventually(lambda: held(groups) == list(range(PARTITIONS)))
        assert 1 == groups["a"]._participation.driver.statistics.sessions


@pytest.mark.slow
def test_an_epoch_that_went_back_is_found_in_the_history_and_repaired(tmp_path):
    with members(tmp_path, "a", partitions=PARTITIONS) as groups:
        write(tmp_path, KEYS.own(3), encoded(OwnershipRecord(epoch=0)))
        eventually(lambda: 3 not in groups["a"].owned)
        assert "which was seen before" in damaged(tmp_path)[KEYS.own(3)]
        assert {KEYS.own(3)} == set(repaired(tmp_path))
        eventually(lambda: held(groups) == list(range(PARTITIONS)))


@pytest.mark.slow
def test_repair_reads_all_of_the_history_and_says_so_when_it_could_not(tmp_path, monkeypatch):
    with members(tmp_path, "a", partitions=PARTITIONS) as groups:
        write(tmp_path, KEYS.own(3), encoded(OwnershipRecord(epoch=0)))
        eventually(lambda: 3 not in groups["a"].owned)
        # As in a group of a long history: who only looks at it does not read it to its end.
        monkeypatch.setitem(found.read.__kwdefaults__, "replay_seconds", 0.0)
        assert {} == damaged(tmp_path)
        for command in (("group", "show", URL, "mailers"), ("group", "ls", URL), ("doctor", "--store", URL)):
            assert b"was not read to its end in time" in run(*command, folder=tmp_path).stdout
        assert {KEYS.own(3)} == set(repaired(tmp_path))
        eventually(lambda: held(groups) == list(range(PARTITIONS)))
        monkeypatch.setitem(mend.__globals__, "REPLAY_SECONDS", 0.0)
        done = run("group", "repair", URL, "mailers", folder=tmp_path)
        assert (1, True) == (done.returncode, b"the history was not read to its end in time" in done.stdout)


def test_repair_in_the_middle_of_a_planned_move_leaves_the_partition_to_its_owner_who_gives_it(tmp_path):
    url, options = f"sqlite:///{tmp_path}/work.db", {"lease_ttl": TTL, "settle": timedelta(0)}
    with members(tmp_path, "a", partitions=2, lease_ttl=TTL) as groups, ExitStack() as holds:
        tokens = [holds.enter_context(groups["a"].hold(each)) for each in range(2)]
        with open_group(url, "mailers", partitions=2, member_id="b", **options) as other:
            [moving] = eventually(lambda: [each for each in range(2) if each not in groups["a"].owned])
            write(tmp_path, KEYS.own(moving), b"{}")
            assert "its last owner a keeps it (session" in repaired(tmp_path)[KEYS.own(moving)]
            kept = decoded(OwnershipRecord, item_of(tmp_path, KEYS.own(moving)).value)
            assert ("a", True) == (kept.owner, kept.epoch > tokens[moving].epoch)
            view = other._participation.driver.view
            eventually(lambda: view.owned(moving).ownership == kept)
            other_is_owner = moving in other.owned
            holds.close()  # the work of a ends
            eventually(lambda: moving in other.owned)
            assert (False, True) == (other_is_owner, other.owned[moving].token.epoch > kept.epoch)


def test_repair_says_why_nobody_owns_a_partition(tmp_path):
    write(tmp_path, KEYS.own(3), b"{}")
    with members(tmp_path, "a", partitions=PARTITIONS) as groups:
        assert "because the history does not show the last one, epoch" in repaired(tmp_path)[KEYS.own(3)]
        eventually(lambda: 3 in groups["a"].owned)
    write(tmp_path, KEYS.own(3), b"{}")
    assert "it has no owner, because nobody owned it, epoch" in repaired(tmp_path)[KEYS.own(3)]


@pytest.mark.parametrize("key", ["group/", "group/a/b", f"group/{'x' * 300}"])
def test_a_key_that_names_no_group_is_passed_over(key, tmp_path):
    with members(tmp_path, "a", partitions=PARTITIONS):
        write(tmp_path, key, b"{}")
        listed = run("group", "ls", URL, "--json", folder=tmp_path)
        assert ["mailers"] == [each["group"] for each in json.loads(listed.stdout)["groups"]]
        assert 0 == run("doctor", "--store", URL, folder=tmp_path).returncode


@pytest.mark.slow
def test_a_damaged_group_record_is_made_anew_by_who_joins_with_as_many_partitions_as_its_target(tmp_path, caplog):
    url = f"sqlite:///{tmp_path}/work.db"
    with members(tmp_path, "a", partitions=PARTITIONS):
        good = item_of(tmp_path, KEYS.record).value
        write(tmp_path, KEYS.record, b"\xff")
        assert {KEYS.record} == set(damaged(tmp_path))
        with pytest.raises(InvalidInput, match="partitions of group mailers"):
            open_group(url, "mailers", partitions=4, member_id="b").__enter__()
        with open_group(url, "mailers", partitions=PARTITIONS, member_id="b"):
            assert good == item_of(tmp_path, KEYS.record).value
        assert 1 == sum("was damaged" in each.getMessage() for each in caplog.records)
        later = good.replace(b'"format":1', b'"format":2').replace(b"cooperative", b"quantum")
        write(tmp_path, KEYS.record, later)
        with pytest.raises(InvalidInput, match="format of group mailers"):
            open_group(url, "mailers", partitions=PARTITIONS, member_id="b").__enter__()
        assert later == item_of(tmp_path, KEYS.record).value


def test_repair_keeps_of_a_group_record_what_can_be_read(tmp_path):
    with members(tmp_path, "a", partitions=PARTITIONS, mode="eager"):
        good = item_of(tmp_path, KEYS.record).value
        write(tmp_path, KEYS.record, good.replace(b'"partitions":8', b'"partitions":-8'))
        assert {KEYS.record: "written anew: 8 partitions, eager, optimal"} == repaired(tmp_path)
        assert good == item_of(tmp_path, KEYS.record).value


@pytest.mark.parametrize("value", [b"\xff", b'{"partitions":-8}', b'{"partitions":8,"mode":"eager","balancer":""}'])
def test_repair_guesses_no_settings_of_a_group_and_leaves_them_to_who_joins(value, tmp_path):
    with members(tmp_path, "a", partitions=PARTITIONS, mode="eager", quarantine_after=3):
        good = item_of(tmp_path, KEYS.record).value
        write(tmp_path, KEYS.record, value)
        write(tmp_path, KEYS.own(3), b"?")
        assert {KEYS.own(3)} == set(repaired(tmp_path))
        assert (
            "the next member that joins knows the settings, and repairs the record"
            in run("group", "repair", URL, "mailers", folder=tmp_path).stdout.decode()
        )
        with members(tmp_path, "b", partitions=PARTITIONS, mode="eager", quarantine_after=3):
            assert good == item_of(tmp_path, KEYS.record).value


def test_repair_takes_the_number_of_partitions_from_the_target_and_no_member_ends(tmp_path):
    with members(tmp_path, "a", partitions=PARTITIONS, lease_ttl=TTL) as groups:
        good = item_of(tmp_path, KEYS.record).value
        write(tmp_path, KEYS.record, good.replace(b'"partitions":8', b'"partitions":4'))
        assert {KEYS.record: "written anew: 8 partitions, cooperative, optimal"} == repaired(tmp_path)
        write(tmp_path, KEYS.member("a"), b"?")
        eventually(lambda: groups["a"]._participation.driver.statistics.sessions > 1)
        eventually(lambda: held(groups) == list(range(PARTITIONS)))


@pytest.mark.parametrize("partitions", [1, 4, 16])
def test_a_number_of_partitions_that_the_target_contradicts_ends_no_member(partitions, tmp_path):
    with members(tmp_path, "a", partitions=PARTITIONS, lease_ttl=TTL) as groups:
        good = item_of(tmp_path, KEYS.record).value
        write(tmp_path, KEYS.record, good.replace(b'"partitions":8', b'"partitions":%d' % partitions))
        with pytest.raises(InvalidInput, match="partitions of group mailers"):
            open_group(f"sqlite:///{tmp_path}/work.db", "mailers", partitions=5, member_id="b").__enter__()
        write(tmp_path, KEYS.member("a"), b"?")
        eventually(lambda: groups["a"]._participation.driver.statistics.sessions > 1)
        eventually(lambda: held(groups) == list(range(PARTITIONS)))
        assert good == item_of(tmp_path, KEYS.record).value


def test_doctor_names_what_is_damaged_and_how_it_is_mended(tmp_path):
    url = f"sqlite:///{tmp_path}/work.db"
    table, broken = Ring(["a"]).table(), "tenants"
    with members(tmp_path, "a", partitions=PARTITIONS):
        publish(url, broken, table)
        eventually(lambda: item_of(tmp_path, f"{TABLES}mailers/head"))
        well = run("doctor", "--store", URL, folder=tmp_path)
        assert (0, True) == (well.returncode, b"groups 1, published tables 2, none is damaged" in well.stdout)
        write(tmp_path, f"{TABLES}{broken}/head", b"?")
        write(tmp_path, KEYS.own(5), b"?")
        done = run("doctor", "--store", URL, folder=tmp_path)
        assert 1 == done.returncode
        assert b"Repair it with: apportion group repair URL mailers" in done.stdout
        assert b"table tenants: Publish the table again to repair it." in done.stdout
        publish(url, broken, table)
        repaired(tmp_path)
        assert 0 == run("doctor", "--store", URL, folder=tmp_path).returncode
