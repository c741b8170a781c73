"""`apportion group plan -o` and `group apply`: a plan of members is done once, to the group that it was made from."""

import asyncio
import json
from dataclasses import replace

import pytest

from apportion.console.group.plan import read_plan
from apportion.errors import StaleEpoch
from apportion.groups.admin.apply import carry_out
from apportion.groups.admin.member_plan import Basis, MemberPlan, encode_plan
from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import Target, decoded_target, encoded_target
from apportion.model.epoch import content_digest
from apportion.model.topology import Node, Topology
from apportion.stores.catalog import opened
from tests.console.grouping import URL, eventually, item_of, members, write
from tests.console.running import refused, run, written

KEYS = GroupKeys(group="mailers")
BASIS = Basis(
    group="mailers",
    incarnation=1,
    generation=2,
    digest="0" * 32,
    members=Topology(["a", Node("b", zone=("eu", "r1"), weight=0.5)]),
    presence={"a": "there", "b": "away"},
)
PLAN = MemberPlan(basis=BASIS, after=Topology(["a"]), words="removing b", summary="removing b moves 1")


def planned(*edits, folder, code=2):
    done = run("group", "plan", URL, "mailers", *edits, "-o", "plan.json", folder=folder)
    assert code == done.returncode, done.stderr.decode()
    return done.stdout.decode()


def applied(*options, folder):
    done = run("group", "apply", URL, "mailers", "plan.json", *options, folder=folder)
    assert 0 == done.returncode, done.stderr.decode()
    return done.stdout.decode()


def complaint(*options, folder, url=URL, name="mailers"):
    return refused(run("group", "apply", url, name, "plan.json", *options, folder=folder))


def everything(folder):
    return [item_of(folder, key) for key in (KEYS.target, *map(KEYS.drain, "abc"), *map(KEYS.static, "abc"))]


def changed(folder, **fields):
    """Write the saved plan anew with other fields, as another release could have."""
    plan = read_plan(folder / "plan.json")
    basis = replace(plan.basis, **{name: each for name, each in fields.items() if name != "after"})
    written(folder, "plan.json", encode_plan(replace(plan, basis=basis, after=fields.get("after", plan.after))))


def test_a_saved_plan_is_carried_out_and_moves_what_it_said(tmp_path):
    with members(tmp_path, "a", "b", "c", partitions=12) as groups:
        text = planned("--drain", "b", folder=tmp_path)
        assert text == planned("--drain", "b", folder=tmp_path), "to plan changes nothing"
        (before,) = {decoded_target(item_of(tmp_path, KEYS.target).value).generation}
        lines = applied(folder=tmp_path)
        assert lines.startswith(text), "the plan is shown before it is done"
        assert lines.endswith("b owns 0 of 12 partitions\ngroup apply: b owns nothing now\n")
        assert {} == dict(groups["b"].owned)
        eventually(lambda: [6, 6] == [len(groups[each].owned) for each in "ac"])
        assert before + 1 == decoded_target(item_of(tmp_path, KEYS.target).value).generation


def test_a_plan_that_was_carried_out_is_not_done_again(tmp_path):
    with members(tmp_path, "a", "b") as groups:
        planned("--drain", "b", folder=tmp_path)
        applied(folder=tmp_path)
        groups["a"].wait_until_settled()
        before = everything(tmp_path)
        text = applied(folder=tmp_path)
        assert text.endswith("group apply: nothing to do, because all was done before: b owns nothing now\n")
        assert before == everything(tmp_path)
        document = json.loads(applied("--json", folder=tmp_path))
    assert (1, "group apply", "mailers", True) == tuple(
        document[name] for name in ("format_version", "command", "group", "done_before")
    )


def test_members_are_drained_and_forgotten_at_once_and_json_says_so(tmp_path):
    with members(tmp_path, "a", "c") as groups:
        with members(tmp_path, "b", static=True):
            groups["a"].wait_until_settled()
        summary = planned("--remove", "b", "--drain", "c", folder=tmp_path).splitlines()[-1]
        document = json.loads(applied("--json", folder=tmp_path))
        eventually(lambda: 8 == len(groups["a"].owned))
        assert f"group plan: {document['summary']}" == summary
        assert (False, [{"member": "c", "owned": 0}], ["b"]) == (
            document["done_before"], document["drained"], document["forgotten"]
        )  # fmt: skip
        assert None is item_of(tmp_path, KEYS.static("b"))
        again = applied(folder=tmp_path)
    assert "all was done before: c owns nothing now, mailers no longer waits for b" in again


def test_a_drain_need_not_be_waited_for_and_the_second_run_waits(tmp_path):
    with members(tmp_path, "a", "b") as groups:
        planned("--drain", "b", folder=tmp_path)
        with groups["b"].hold(min(groups["b"].owned)):
            assert "group apply: b is asked for 4 partitions" in applied("--no-wait", folder=tmp_path)
            eventually(lambda: 7 == len(groups["a"].owned))
            assert "before: b is asked for 1 partition\n" in applied("--no-wait", folder=tmp_path)
        assert applied(folder=tmp_path).endswith("b owns nothing now\n")


def test_a_plan_of_no_change_has_nothing_to_do(tmp_path):
    with members(tmp_path, "a"):
        planned(folder=tmp_path, code=0)
        assert "group apply: nothing to do: no change of members moves 0 of 8" in applied(folder=tmp_path)


def test_a_group_that_has_changed_is_left_alone_and_what_changed_is_named(tmp_path):
    with members(tmp_path, "a", "b") as groups:
        planned("--drain", "b", folder=tmp_path)
        with members(tmp_path, "c"):
            groups["a"].wait_until_settled()
            before = everything(tmp_path)
            text = complaint(folder=tmp_path)
            assert "of group mailers, but since then target 3:" in text
            assert "was written, c joined.\nNothing was changed. Plan again: apportion group plan URL mailers" in text
            assert before == everything(tmp_path)
            planned("--drain", "b", folder=tmp_path)
            run("group", "drain", URL, "mailers", "c", folder=tmp_path)
            groups["a"].wait_until_settled()
            assert "was written, c drains now." in complaint(folder=tmp_path)
            planned("--drain", "b", folder=tmp_path)
        groups["a"].wait_until_settled()
        assert "c left." in complaint(folder=tmp_path)


def test_a_static_member_that_came_or_went_makes_a_plan_stale_though_the_target_is_the_same(tmp_path):
    with members(tmp_path, "a") as groups:
        with members(tmp_path, "b", static=True):
            groups["a"].wait_until_settled()
            planned("--drain", "a", folder=tmp_path)
        assert "since then b is away.\n" in complaint(folder=tmp_path)
        planned("--remove", "b", folder=tmp_path)
        with members(tmp_path, "b", static=True):
            assert "since then b is back.\n" in complaint(folder=tmp_path)
            assert item_of(tmp_path, KEYS.static("b")) is not None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"generation": 9}, r"made from target 9:"),
        ({"digest": "0" * 32}, r"made from target 2:00000000 "),
        ({"digest": ""}, r"made from target 2:step "),
        ({"incarnation": 9}, "not 9: restored or replaced"),
        ({"members": Topology(["a", Node("b", weight=2)])}, "b has another weight or zone"),
        ({"members": Topology(["a", "b", "c"]), "presence": dict.fromkeys("abc", "there")}, "c left"),
        (
            {"members": Topology(["b"]), "presence": {"b": "there"}, "after": Topology([Node("b", weight=0)])},
            "a joined",
        ),
    ],
)
def test_whatever_a_plan_was_made_from_is_compared(fields, words, tmp_path):
    with members(tmp_path, "a", "b"):
        planned("--drain", "b", folder=tmp_path)
        keep = read_plan(tmp_path / "plan.json").after
        changed(tmp_path, **({"after": keep.add("c") if "c" in fields.get("presence", {}) else keep} | fields))
        assert words in complaint(folder=tmp_path)
        assert None is item_of(tmp_path, KEYS.drain("b"))


class TargetWritten:
    """A store in which another target is written right before the first commit."""

    def __init__(self, store, folder):
        self._store, self._folder, self.commits = store, folder, 0

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def commit(self, **request):
        self.commits += 1
        if self.commits == 1:
            target = decoded_target((await self._store.scan(KEYS.target)).items[0].value)
            nobody = Target(generation=target.generation + 1, digest="", owners=target.owners)
            await asyncio.to_thread(write, self._folder, KEYS.target, encoded_target(nobody))
        return await self._store.commit(**request)


def test_a_target_that_is_written_between_the_look_and_the_commit_stops_it(tmp_path):
    async def carried_out(plan):
        async with opened(f"sqlite:///{tmp_path}/work.db") as store:
            between = TargetWritten(store, tmp_path)
            with pytest.raises(StaleEpoch, match=r"since then target \S+ was written\.\n"):
                await carry_out(between, plan, "the store")
            return between.commits

    with members(tmp_path, "a"):
        with members(tmp_path, "b", static=True):
            pass
        planned("--remove", "b", folder=tmp_path)
        assert 1 == asyncio.run(carried_out(read_plan(tmp_path / "plan.json")))
        assert item_of(tmp_path, KEYS.static("b")) is not None


@pytest.mark.parametrize(
    ("edits", "words", "hint"),
    [
        (("--add", "worker-7"), "worker-7 joins only when its process starts", "Start the new member"),
        (("--remove", "b"), "b leaves only when its process stops", "Stop that member, or plan with --drain"),
        (("--weight", "b=2"), "b sets its own weight and zone", "with its new weight"),
        (("--drain", "b", "--add", "d"), "d joins only when its process starts", "Start the new member"),
        (("--drain", "c"), "c is away and gets no request", "Plan its removal with --remove"),
        (
            ("--add", ",".join(f"w{each:02}" for each in range(10))),
            "w07 joins only when its process starts, ... 2 more",
            "Start",
        ),
    ],
)
def test_what_only_the_processes_can_do_is_a_what_if_and_none_of_it_is_done(edits, words, hint, tmp_path):
    with members(tmp_path, "a", "b") as groups:
        with members(tmp_path, "c", static=True):
            groups["a"].wait_until_settled()
        planned(*edits, folder=tmp_path)
        before = everything(tmp_path)
        text = complaint(folder=tmp_path)
        assert before == everything(tmp_path)
    assert "plan refused: it is a what-if that no command can carry out: " in text
    assert words in text
    assert "Nothing was changed. " in text
    assert hint in text


def test_a_plan_of_another_group_is_refused_before_the_store_is_asked(tmp_path):
    with members(tmp_path, "a"), members(tmp_path, "a", group="crawl"):
        planned("--drain", "a", folder=tmp_path)
        text = complaint(name="crawl", folder=tmp_path)
        assert "a plan for group crawl" in text
        assert "The plan is for group mailers." in text
        assert "a plan for group mialers" in complaint(name="mialers", folder=tmp_path)


def test_a_store_that_is_away_or_is_none_is_told_and_no_password_shown(tmp_path):
    with members(tmp_path, "a"):
        planned("--drain", "a", folder=tmp_path)
    assert b"S3cr3t" not in (tmp_path / "plan.json").read_bytes()
    for url in ("sqlit:///work.db", "redis://worker:S3cr3t@127.0.0.1:1/0", "postgresql://w:S3cr3t@127.0.0.1:1/x"):
        text = complaint(url=url, folder=tmp_path)
        assert "S3cr3t" not in text
        assert "Did you mean 'sqlite'?" in text or "://127.0.0.1:1" in text
    assert "an existing store" in complaint(url="sqlite:///other.db", folder=tmp_path)
    assert not (tmp_path / "other.db").exists()


def test_a_group_whose_store_was_made_anew_is_unknown(tmp_path):
    with members(tmp_path, "a"):
        planned("--drain", "a", folder=tmp_path)
    run("store", "upgrade", "sqlite:///other.db", folder=tmp_path)
    assert "This store holds no group" in complaint(url="sqlite:///other.db", folder=tmp_path)


def _cut(data):
    return data[:-9]


def _edited(data):
    return data.replace(b'"generation":', b'"generation":1')


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda _: b"group = 1\n", "bytes that apportion saved"),
        (lambda _: b"", "a file that is not empty"),
        (lambda data: data.replace(b'"format_version":1', b'"format_version":7'), "format_version is 7"),
        (lambda data: data.replace(b"groupplan", b"topology"), "snapshot kind is 'topology'"),
        (_cut, "It was cut or edited"),
        (_edited, "It was cut or edited"),
    ],
)
def test_what_is_no_plan_is_refused(damage, words, tmp_path):
    with members(tmp_path, "a"):
        planned("--drain", "a", folder=tmp_path)
    data = (tmp_path / "plan.json").read_bytes()
    written(tmp_path, "plan.json", damage(data))
    assert words in complaint(folder=tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("group", "mail/ers"),
        ("group", None),
        ("incarnation", None),
        ("generation", 1e999),
        ("digest", 7),
        ("before", 1e999),
        ("before", [["a"]]),
        ("before", [["a", -1, [], "there"]]),
        ("before", [["a", 1, [], "asleep"]]),
        ("before", [["a", 1, [], "there"], ["a", 1, [], "there"]]),
        ("after", {"a": 1}),
        ("after", [["a", 1, None]]),
        ("words", "red: \x1b[31m"),
        ("summary", "two\nlines"),
    ],
)
def test_a_plan_that_says_what_none_can_is_refused(field, value, tmp_path):
    away = written(tmp_path, "plan.json", encode_plan(PLAN))
    assert PLAN == read_plan(away)
    said = json.loads(away.read_bytes().partition(b'"body":')[2][:-2])
    assert field in said
    written(tmp_path, "plan.json", sealed(json.dumps(said | {field: value}, separators=(",", ":"))))
    assert "plan file is" in complaint(folder=tmp_path)


def sealed(body):
    """Return a file with a body that no release writes, under a checksum that fits."""
    checksum = content_digest(b"groupplan", b"1", b'""', body.encode())
    head = f'{{"apportion":"groupplan","format_version":1,"cluster":"","checksum":"{checksum}"'
    return f'{head},"body":{body}}}\n'


def test_a_plan_of_tables_and_one_of_members_are_told_apart(tmp_path):
    run("table", "export", "--nodes", "a,b", folder=tmp_path)
    run("plan", "--table", "table.json", "--add", "c", "-o", "plan.json", folder=tmp_path)
    assert "for this file, use: apportion apply" in complaint(folder=tmp_path)
    with members(tmp_path, "a"):
        done = run("group", "plan", URL, "mailers", "--drain", "a", "-o", "plan.json", folder=tmp_path)
        assert "a plan of a group or a free name, because the file there is a plan." in refused(done)
        planned("--drain", "a", "--force", folder=tmp_path)
    assert "apportion group apply" in refused(run("apply", "plan.json", folder=tmp_path))


def test_a_missing_plan_and_a_place_where_none_can_be_saved_are_refused(tmp_path):
    with members(tmp_path, "a"):
        assert "a usable file" in complaint(folder=tmp_path)
        done = run("group", "plan", URL, "mailers", "--drain", "a", "-o", "no/plan.json", folder=tmp_path)
        assert "--output" in refused(done)
