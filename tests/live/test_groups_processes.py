"""Programs with processes: prefork servers, handles that are pickled, interpreters that end during a drain."""

import asyncio
import json
import os
import pickle
import signal
from itertools import count

import pytest

import apportion
from apportion import sync
from apportion.errors import InvalidInput
from tests.groups.group_leaver import HOW, STATUS
from tests.live.crew import Crew
from tests.live.test_groups_guarded import stale
from tests.stores.rigs import absent
from tests.stores.rigs.etcd import EtcdRig
from tests.stores.rigs.postgres import PostgresRig
from tests.stores.rigs.sqlite import SqliteRig

pytestmark = pytest.mark.live
NAMES = count()
ENGINES = {"sqlite": SqliteRig, "postgres": PostgresRig, "etcd": EtcdRig}
TTL_SECONDS = 3.0  # of members that must not lapse, on a machine that is busy


@pytest.fixture(scope="module")
def rig(request):
    try:
        made = ENGINES[request.param]()
    except FileNotFoundError as error:
        absent(str(error))
    yield made
    asyncio.run(made.close())


@pytest.fixture
def url(rig):
    """Return the URL of a namespace that nobody else uses."""
    return rig.url(f"processes{next(NAMES)}")


@pytest.fixture
def crew(url, tmp_path):
    options = {"lease_ttl": TTL_SECONDS, "work": {"beat_seconds": 0.05}}
    made = Crew(url, str(tmp_path / "log.db"), tmp_path / "errors", partitions=12, **options)
    yield made
    made.end()


def until_served(crew, *names):
    """Wait until just these members are there, share the partitions, and these `names` serve theirs."""
    start = len(crew.lines)
    crew.until_settled(*names)
    crew.until("effects", is_served, crew, start)


def is_served(crew, start):
    """Whether each partition was written by its owner since a line, but those of the master, who only owns."""
    written = {(line["partition"], line["member"], line["epoch"][1]) for line in crew.effects(start=start)}
    owned = {(each, owner, epoch) for each, (owner, _, epoch) in crew.owners().items() if owner != "master"}
    return owned <= written


@pytest.mark.parametrize("rig", ENGINES, indirect=True)
def test_workers_that_were_forked_within_a_group_open_it_for_themselves(crew, tmp_path):
    workers = ["ann", "bob", "cid"]
    crew.launch("master", module="group_master", member_id="master", workers=workers)
    assert "ready" == crew.hear("master")
    forked = json.loads(crew.hear("master"))
    assert 5 == forked.pop("stray")  # and it said nothing, see below
    until_served(crew, "master", *workers)
    assert [3] * 4 == [len(crew.owned_by(name)) for name in ("master", *workers)]
    session = crew.view.session("master")

    os.kill(forked["bob"], signal.SIGKILL)
    until_served(crew, "master", "ann", "cid")
    assert session == crew.view.session("master")
    crew.send(signal.SIGTERM, "master")  # it leaves, and none of its children does
    until_served(crew, "ann", "cid")
    assert [6, 6] == [len(crew.owned_by(name)) for name in ("ann", "cid")]
    assert [] == stale(crew.effects())

    crew.say("master", "end")
    assert {"ann": 0, "bob": -signal.SIGKILL, "cid": 0} == json.loads(crew.hear("master"))
    assert 0 == crew.gone("master")
    assert "Traceback" not in (tmp_path / "errors").read_text()


@pytest.mark.parametrize("rig", ENGINES, indirect=True)
def test_an_interpreter_that_ends_in_the_middle_of_a_drain_ends_soon_and_others_take_over(crew, tmp_path):
    crew.start("bob")
    for how in HOW:
        crew.launch(how, module="group_leaver", member_id=how, how=how, drain_timeout=1.0)
    assert ["ready"] * len(HOW) == [crew.hear(how) for how in HOW]
    crew.until_settled()
    assert all(crew.owned_by(how) for how in HOW)
    for how in HOW:
        crew.say(how, "leave")
    assert {"exits": STATUS, "hangs": STATUS, "falls_off": 0, "awaits": STATUS} == {how: crew.gone(how) for how in HOW}
    until_served(crew, "bob")
    assert "Traceback" not in (tmp_path / "errors").read_text()


@pytest.mark.parametrize("rig", ENGINES, indirect=True)
def test_what_is_a_value_is_pickled_and_a_handle_says_what_to_send(url):
    async def opened_async():
        async with apportion.open_group(url, "work", partitions=2) as group, apportion.open_store(url) as store:
            refused(group, group.owned, store)

    opened = sync.open_group(url, "work", partitions=2)
    with opened as group, sync.open_store(url) as store, sync.leader(url, "boss") as election:
        group.wait_until_settled()
        refused(group, group.owned, store, election)
        held = group.owned[0]
        values = {"token": held.token, "holding": held, "owned": dict(group.owned), "members": group.members()}
    asyncio.run(opened_async())
    assert values == pickle.loads(pickle.dumps(values))
    assert held.token.holder == pickle.loads(pickle.dumps(held.token)).holder  # no part of the order


def refused(*handles):
    """Expect that none of these is pickled, and that the error names the remedy."""
    for each in handles:
        with pytest.raises(InvalidInput, match=f"{type(each).__name__}(.|\n)*Send the URL (.|\n)*okens .*may be sent"):
            pickle.dumps(each)
