"""etcd beyond the promises of every store: a cluster that loses servers, TLS, passwords, tokens, quotas, compaction."""

import asyncio
import os
import time
from contextlib import aclosing, asynccontextmanager, suppress
from urllib.parse import quote

import pytest

from apportion import stores
from apportion.errors import Compacted, InvalidInput, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.stores import Absent, Committed, Put, Unchanged, Unknown
from apportion.stores.etcd.gateway import EtcdNoReply, Unreached
from apportion.stores.etcd.messages import encoded

pytestmark = pytest.mark.live

PATIENCE_SECONDS = 30
SECRET = "S3cr3t@:/% canary"  # searched for in all that is raised or shown


def rig_of(*options, **settings):
    """Return a running rig; skip without etcd, and fail where everything must run."""
    from tests.stores.rigs.etcd import EtcdRig

    try:
        return EtcdRig(*options, **settings)
    except FileNotFoundError as error:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{error}: see ENGINES of the Makefile")


@asynccontextmanager
async def cluster(*options, **settings):
    """Within: a rig, closed at the end."""
    rig = rig_of(*options, **settings)
    try:
        yield rig
    finally:
        await rig.close()


@asynccontextmanager
async def connected(url):
    """Within: a handle, closed at the end."""
    store = await stores.connect(url)
    try:
        yield store
    finally:
        await store.close()


class Tape:
    """Records the changes of a watch, and its end."""

    def __init__(self, store, prefix, *, after):
        self.changes, self.error = [], None
        self.task = asyncio.create_task(self._run(store, prefix, after))

    async def _run(self, store, prefix, after):
        try:
            async with aclosing(store.watch(prefix, after=after)) as changes:
                async for change in changes:
                    self.changes.append(change)
        except (Compacted, StoreUnavailable, StoreWentBack) as error:
            self.error = error

    def values(self):
        return [event.value for change in self.changes for event in change.events]

    async def stop(self):
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


async def until(is_done, what, *, seconds=PATIENCE_SECONDS):
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < deadline, f"{what} did not come"
        await asyncio.sleep(0.01)


async def put(store, key, value, *, lease=None):
    """Write a key, whatever it was and however often it takes; return how often it was Unknown or unavailable."""
    deadline, mishaps = time.monotonic() + PATIENCE_SECONDS, 0
    while True:
        assert time.monotonic() < deadline, f"{key} could not be written"
        try:
            found = {item.key: item for item in (await store.scan(key)).items}.get(key)
            if found is not None and found.value == value:
                return mishaps
            when = Absent(key=key) if found is None else Unchanged(key=key, revision=found.revision)
            outcome = await store.commit(when=[when], puts=[Put(key=key, value=value, lease=lease)])
        except StoreUnavailable:
            mishaps += 1
            await asyncio.sleep(0.05)
            continue
        if isinstance(outcome, Committed):
            return mishaps
        mishaps += isinstance(outcome, Unknown)


def test_a_leader_killed_while_watching_and_committing_loses_and_repeats_nothing():
    async def run():
        async with (
            cluster(servers=3) as rig,
            connected(rig.url("crawl")) as writer,
            connected(rig.url("crawl")) as reader,
        ):
            start = await reader.scan("")
            tape = Tape(reader, "", after=start.revision)
            wanted = [b"%d" % number for number in range(120)]
            killed = rig.leader()
            for number, value in enumerate(wanted):
                if number == 40:
                    killed.kill()
                if number == 80:
                    rig.start_server(killed)
                await put(writer, f"key/{number}", value)
            await until(lambda: wanted[-1] in tape.values(), "the last change")
            assert wanted == tape.values()
            revisions = [change.revision for change in tape.changes]
            assert sorted(set(revisions)) == revisions
            await tape.stop()

    asyncio.run(run())


def test_without_a_majority_nothing_is_promised_and_afterwards_everything_goes_on():
    async def run():
        async with cluster(servers=3) as rig, connected(rig.url("crawl")) as store:
            lease = await store.grant(ttl_seconds=60)
            start = await store.scan("")
            tape = Tape(store, "", after=start.revision)
            await put(store, "before", b"1")
            await until(lambda: b"1" in tape.values(), "the first change")
            leader = rig.leader()
            followers = [server for server in rig.servers if server is not leader]
            for server in followers:
                server.kill()
            outcome = await undecided(store)
            assert isinstance(outcome, (Unknown, StoreUnavailable))
            for call in (store.renew([lease.id]), store.scan(""), store.grant(ttl_seconds=60)):
                with pytest.raises(StoreUnavailable):
                    await call
            assert [b"1"] == tape.values()
            for server in followers:
                rig.start_server(server)
            await put(store, "after", b"2")
            await until(lambda: b"2" in tape.values(), "the change after the outage")
            assert frozenset({lease.id}) == await store.renew([lease.id])
            assert [b"1", b"2"] == [value for value in tape.values() if value != b"?"]
            await tape.stop()

    asyncio.run(run())


async def undecided(store):
    """Return the outcome of a commit that no majority can decide."""
    try:
        return await store.commit(when=[Absent(key="lost")], puts=[Put(key="lost", value=b"?")])
    except StoreUnavailable as error:
        return error


def test_a_server_without_a_leader_ends_a_watch_and_refuses_renewals_at_once():
    async def run():
        async with cluster(servers=3) as rig, connected(rig.url("crawl")) as store:
            gateway = store._gateway
            lease = await store.grant(ttl_seconds=60)
            asked = {"create_request": {"key": "YQ=="}}
            stream = await gateway.open("/v3/watch", encoded(asked))
            assert (await stream.next(timeout_seconds=5))["result"]["created"]
            for index, server in enumerate(rig.servers):
                if index != stream.endpoint:
                    server.kill()
            with pytest.raises(
                EtcdNoReply, match="has ended"
            ):  # which it never does when it is not asked to have a leader
                await stream.next(timeout_seconds=PATIENCE_SECONDS)
            began = time.monotonic()
            with pytest.raises(Unreached, match="no leader"):
                await gateway.visit("/v3/lease/keepalive", {"ID": str(lease.id)}, stream.endpoint)
            assert time.monotonic() - began < 1  # without asking for a leader it takes the server 7 s to say so
            await stream.close()

    asyncio.run(run())


def test_a_commit_at_every_limit_is_taken():
    async def run():
        async with cluster() as rig, connected(rig.url("n" * 64)) as store:
            able = store.capabilities()
            keys = [f"{number:03}".ljust(1_024, "k") for number in range(able.max_operations)]
            filled = await store.commit(when=[Absent(key=k) for k in keys], puts=[Put(key=k, value=b"") for k in keys])
            when = [Unchanged(key=key, revision=filled.revision) for key in keys]
            keys_bytes = sum(len(key) + 65 for key in [*keys, *keys[:2]])
            room = able.max_commit_bytes - keys_bytes
            values = [bytes(room // 2), bytes(room - room // 2)]
            puts = [Put(key=key, value=value) for key, value in zip(keys, values, strict=False)]
            done = await store.commit(when=when, puts=puts, deletes=keys[2:])
            assert isinstance(done, Committed)
            with pytest.raises(InvalidInput, match="max_commit_bytes"):
                await store.commit(when=when, puts=[*puts[1:], Put(key=keys[0], value=values[0] + b"x")])

    asyncio.run(run())


def test_a_server_that_stands_still_is_left_by_the_watch_and_by_renewals():
    from tests.stores.rigs.etcd import Pause

    async def run():
        async with (
            cluster(servers=3) as rig,
            connected(rig.url("crawl")) as store,
            connected(rig.url("crawl")) as other,
        ):
            lease = await store.grant(ttl_seconds=60)
            tape = Tape(store, "", after=(await store.scan("")).revision)
            await put(other, "before", b"1")
            await until(lambda: b"1" in tape.values(), "the first change")
            with Pause(rig.servers[store._gateway.wire.current]):
                await put(other, "during", b"2")
                assert frozenset({lease.id}) == await store.renew([lease.id])
                await until(lambda: b"2" in tape.values(), "the change from another server")
            await put(other, "after", b"3")
            await until(lambda: b"3" in tape.values(), "the change afterwards")
            assert [b"1", b"2", b"3"] == tape.values()
            await tape.stop()

    asyncio.run(run())


def test_a_delete_at_the_very_revision_of_a_compaction_is_not_left_out_in_silence():
    async def run():
        async with cluster() as rig, connected(rig.url("crawl")) as store:
            written = await store.commit(when=[Absent(key="a")], puts=[Put(key="a", value=b"1")])
            await store.commit(when=[Unchanged(key="a", revision=written.revision)], deletes=["a"])
            await rig.compact()
            await put(store, "b", b"2")
            async with aclosing(store.watch("", after=written.revision)) as changes:
                with pytest.raises(Compacted):  # the server itself would begin with b, and say nothing of a
                    await anext(changes)

    asyncio.run(run())


def test_large_changes_come_whole_though_they_are_sent_in_fragments():
    async def run():
        async with cluster() as rig, connected(rig.url("crawl")) as store:
            start = await store.scan("")
            keys = [f"key/{number:03}" for number in range(100)]
            for round_ in range(8):
                when = [Absent(key=f"{round_}/{key}") for key in keys]
                await store.commit(when=when, puts=[Put(key=each.key, value=bytes(12_000)) for each in when])
            async with aclosing(store.watch("", after=start.revision)) as changes:
                counts = [len((await anext(changes)).events) for _ in range(8)]
            assert [100] * 8 == counts

    asyncio.run(run())


def test_a_used_up_quota_refuses_and_room_given_back_lets_go_on():
    async def run():
        async with cluster("--quota-backend-bytes=4000000") as rig, connected(rig.url("crawl")) as store:
            with pytest.raises(StoreUnavailable, match="space exceeded") as refused:
                await use_up(store)
            assert "etcdctl alarm disarm" in str(refused.value)
            scan = await store.scan("")
            findings = await stores.administration(rig.url("crawl")).inspect()
            assert ["error"] == [each.verdict for each in findings if each.subject == "space"]
            deletes = [Unchanged(key=item.key, revision=item.revision) for item in scan.items]
            await store.commit(when=deletes, deletes=[each.key for each in deletes])
            await rig.compact()
            rig.ask("/v3/maintenance/defragment", {})
            await rig.relieve()
            assert 0 == await put(store, "small", b"1")

    asyncio.run(run())


async def use_up(store):
    """Write more than a small quota has room for."""
    for number in range(10):
        key = f"big/{number}"
        await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=bytes(900_000))])


def test_a_server_with_a_slow_election_names_its_shortest_lease():
    async def run():
        async with (
            cluster("--election-timeout=3000", "--heartbeat-interval=300") as rig,
            connected(rig.url("c")) as store,
        ):
            with pytest.raises(InvalidInput, match=r"ttl_seconds is 2.0, expected a number of seconds in 5 \.\."):
                await store.grant(ttl_seconds=2.0)
            assert 5 == store.capabilities().min_ttl_seconds
            assert 6 == (await store.grant(ttl_seconds=5.5)).ttl_seconds
            assert [] == rig.ask("/v3/lease/leases", {}).get("leases", [])[1:]

    asyncio.run(run())


def test_hundreds_of_leases_and_one_that_ended_are_renewed_without_a_false_answer():
    async def run():
        async with cluster() as rig, connected(rig.url("crawl")) as store:
            leases = [(await store.grant(ttl_seconds=600)).id for _ in range(300)]
            await store.revoke(leases[7])
            for _ in range(20):
                assert frozenset(leases) - {leases[7]} == await store.renew(leases)

    asyncio.run(run())


def test_a_restored_store_is_noticed_by_the_next_commit_through_an_old_handle():
    async def run():
        async with cluster() as rig, connected(rig.url("crawl")) as store:
            await put(store, "a", b"1")
            await rig.save()
            await put(store, "a", b"2")
            await rig.restore()
            with pytest.raises(StoreWentBack, match="went back"):
                await store.commit(when=[Absent(key="b")], puts=[Put(key="b", value=b"1")])
            assert ["a"] == [item.key for item in (await store.scan("")).items]
            await put(
                store, "c", b"1"
            )  # over a connection that was looked at, so that only the commit itself can notice
            before, after = await stores.administration(rig.url("crawl")).restored()
            assert before < after
            with pytest.raises(StoreWentBack, match=f"incarnation is {after}"):
                await store.commit(when=[Absent(key="b")], puts=[Put(key="b", value=b"1")])
            assert after == (await store.scan("")).incarnation

    asyncio.run(run())


def test_another_cluster_at_the_same_address_is_another_life():
    async def run():
        async with cluster() as rig, connected(rig.url("crawl")) as store:
            life = (await store.scan("")).incarnation
            tape = Tape(store, "", after=(await store.scan("")).revision)
            await rig.kill()
            import shutil

            shutil.rmtree(rig.servers[0].data)
            rig.options = ("--initial-cluster-token=another",)
            await rig.start()
            with pytest.raises(StoreWentBack, match="cluster"):
                await store.renew([1])
            await tape.task
            assert isinstance(tape.error, StoreWentBack)
            assert life < (await store.scan("")).incarnation

    asyncio.run(run())


def test_a_watch_is_told_when_an_operator_begins_another_life(monkeypatch):
    monkeypatch.setattr(
        "apportion.stores.etcd.wire.USUAL_PATIENCE_SECONDS", 1_000
    )  # so that no check by a read finds it

    async def run():
        async with cluster() as rig, connected(rig.url("crawl")) as store:
            tape = Tape(store, "", after=(await store.scan("")).revision)
            await put(store, "a", b"1")
            await until(lambda: tape.changes, "the first change")
            await stores.administration(rig.url("crawl")).restored()
            await tape.task
            assert isinstance(tape.error, StoreWentBack)

    asyncio.run(run())


def with_password(rig, *, ttl_seconds=None):
    """Make the user `me` with the rights of `grants`, and switch authentication on; return the URL of that user."""
    url = rig.url("crawl")
    address = url.partition("://")[2]
    for path, body in (
        ("user/add", {"name": "root", "password": "root"}),
        ("role/add", {"name": "root"}),
        ("user/grant", {"user": "root", "role": "root"}),
        ("user/add", {"name": "me", "password": SECRET}),
        *granted(stores.administration(url).grants("me")),
        ("enable", {}),
    ):
        rig.ask(f"/v3/auth/{path}", body)
    return f"etcd://me:{quote(SECRET, safe='')}@{address}"


def granted(commands):
    """Yield the requests of etcdctl to the gateway for the commands of `grants`."""
    import shlex

    from tests.stores.rigs.etcd import text

    for command in commands:
        _, what, verb, *words = shlex.split(command)
        if (what, verb) == ("role", "add"):
            yield "role/add", {"name": words[0]}
        elif (what, verb) == ("role", "grant-permission"):
            prefix = words[0] == "--prefix"
            role, kind, key = words[prefix:]
            end = key[:-1] + chr(ord(key[-1]) + 1) if prefix else ""
            perm = {"permType": kind.upper(), "key": text(key.encode()), "range_end": text(end.encode())}
            yield "role/grant", {"name": role, "perm": perm}
        else:
            assert ("user", "grant-role") == (what, verb)
            yield "user/grant", {"user": words[0], "role": words[1]}


def test_a_token_that_expired_is_renewed_without_the_caller_seeing_it():
    async def run():
        async with cluster("--auth-token-ttl=2") as rig, connected(with_password(rig)) as store:
            tape = Tape(store, "", after=(await store.scan("")).revision)
            lease = await store.grant(ttl_seconds=60)
            first = store._gateway.wire.token
            for number in range(2):
                assert 0 == await put(store, f"key/{number}", b"%d" % number, lease=lease.id)
                await idle_until_refused(rig, store)
            assert frozenset({lease.id}) == await store.renew([lease.id])
            assert first != store._gateway.wire.token
            await until(lambda: len(tape.values()) == 2, "two changes")
            await rig.kill()  # which forgets all tokens
            await rig.start()
            await put(store, "key/2", b"2", lease=lease.id)
            await until(lambda: len(tape.values()) == 3, "the change after the restart")
            await tape.stop()

    asyncio.run(run())


async def idle_until_refused(rig, store):
    """Wait until the server no longer knows the token of a handle, without using the handle."""
    token = store._gateway.wire.token
    deadline = time.monotonic() + PATIENCE_SECONDS
    # Asking keeps a token alive: only one that was not used for its time to live expires.
    seconds = 2.5
    while True:
        assert time.monotonic() < deadline
        await asyncio.sleep(seconds)
        reply = rig.client.post(
            f"http://127.0.0.1:{rig.servers[0].port}/v3/kv/range",
            json={"key": "Y3Jhd2wv"},
            headers={"Authorization": token},
        )
        if reply.status_code == 401:
            return
        seconds += 0.5


def test_a_wrong_password_a_foreign_namespace_and_no_user_are_refused_without_the_secret():
    async def run():
        async with cluster() as rig:
            url = with_password(rig)
            said = []
            wrong = (
                url.replace("crawl", "other"),
                url.replace("me:", "you:"),
                url.replace("canary", "canari"),
                rig.url("crawl"),
            )
            for each in wrong:
                with pytest.raises(StoreDenied) as refused:
                    async with connected(each) as store:
                        await store.scan("")
                said += [str(refused.value), repr(refused.value), repr(refused.value.__cause__)]
            async with connected(url) as store:
                said += [repr(store), repr(vars(store)), str(await stores.administration(url).inspect())]
            assert [] == [line for line in said if "canar" in line or quote(SECRET, safe="") in line]
            assert 1 == sum("permission denied" in line for line in said[::3][:4])

    asyncio.run(run())


@pytest.fixture
def certificates(tmp_path):
    """A folder with an authority, a server's certificate for 127.0.0.1, another authority, and one for another name."""
    import subprocess

    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=tmp_path)

    for authority in ("ca", "stranger"):
        openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={authority}",
            "-keyout", f"{authority}.key", "-out", f"{authority}.pem",
        )  # fmt: skip
    for name, alternative in (("server", "IP:127.0.0.1"), ("elsewhere", "DNS:elsewhere.test")):
        (tmp_path / "names").write_text(f"subjectAltName={alternative}\n")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", "csr")
        openssl(
            "x509", "-req", "-in", "csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "names", "-out", f"{name}.pem",
        )  # fmt: skip
    return tmp_path


def secured(folder, name):
    """Return the settings of a rig that speaks TLS and wants a certificate of its clients."""
    import ssl

    import httpx

    options = (
        f"--cert-file={folder}/{name}.pem", f"--key-file={folder}/{name}.key",
        f"--trusted-ca-file={folder}/ca.pem", "--client-cert-auth",
    )  # fmt: skip
    mine = ssl.create_default_context(cafile=f"{folder}/ca.pem")
    mine.check_hostname = False
    mine.load_cert_chain(f"{folder}/server.pem", f"{folder}/server.key")
    client = httpx.Client(verify=mine, trust_env=False)
    return options, {"scheme": "https", "client": client}


def test_tls_checks_both_ends(certificates):
    async def run():
        options, settings = secured(certificates, "server")
        async with cluster(*options, **settings) as rig:
            url = rig.url("crawl")
            mine = f"&cert={certificates}/server.pem&key={certificates}/server.key"
            async with connected(f"{url}&ca={certificates}/ca.pem{mine}") as store:
                tape = Tape(store, "", after=(await store.scan("")).revision)
                await put(store, "a", b"1")
                await until(lambda: tape.values() == [b"1"], "the change")
                await tape.stop()
            for query in (mine, f"&ca={certificates}/stranger.pem{mine}", f"&ca={certificates}/ca.pem"):
                with pytest.raises(StoreDenied):
                    await stores.connect(url + query)
            with pytest.raises(InvalidInput, match="TLS files"):
                await stores.connect(f"{url}&ca={certificates}/none.pem")
            with pytest.raises(InvalidInput, match="TLS files"):
                await stores.connect(f"{url}&ca={certificates}/names")
            with pytest.raises(StoreUnavailable):
                await stores.connect(url.replace("etcds", "etcd"))

    asyncio.run(run())


def test_a_certificate_for_another_name_is_refused(certificates):
    async def run():
        options, settings = secured(certificates, "elsewhere")
        async with cluster(*options, **settings) as rig:
            mine = f"&cert={certificates}/server.pem&key={certificates}/server.key&ca={certificates}/ca.pem"
            with pytest.raises(StoreDenied, match="certificate verify failed"):
                await stores.connect(rig.url("crawl") + mine)

    asyncio.run(run())


def test_a_diagnosis_names_each_server_and_those_that_are_away():
    async def run():
        async with cluster(servers=3) as rig:
            url = rig.url("crawl")
            well = await stores.administration(url).inspect()
            killed = next(server for server in rig.servers if server is not rig.leader())
            killed.kill()
            hurt = await stores.administration(url).inspect()
            for server in rig.servers:
                server.kill()
            dead = await stores.administration(url).inspect()
        assert [] == [each for each in well if each.verdict == "error"]
        assert ["etcd 3." in each.found for each in well[:3]] == [True] * 3
        assert [f"server 127.0.0.1:{killed.port}"] == [each.subject for each in hurt if each.verdict == "error"]
        assert ["error"] * 4 == [each.verdict for each in dead[:4]]

    asyncio.run(run())
