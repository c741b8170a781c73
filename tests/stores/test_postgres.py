"""What the PostgreSQL store says and refuses without any server."""

import asyncio
import socket
import subprocess
import sys
import time
import traceback
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from apportion.errors import InvalidInput, StoreDenied, StoreUnavailable
from apportion.runtime.clock import SystemClock
from apportion.stores import administration, connect
from apportion.stores.postgres.errors import TablesAbsent, refusal, unreachable
from apportion.stores.postgres.tasks import statements
from apportion.stores.postgres.tasks.store import PostgresTasks, connected
from apportion.stores.postgres.wire import PostgresNoReply
from apportion.stores.task_control import StoreTime

URL = "postgresql://u:cAnAry p@ss@127.0.0.1:1/d"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ('FATAL:  password authentication failed for user "u"', "refuses this user or password"),
        ("fe_sendauth: no password supplied", "requires a password"),
        ('FATAL:  database "d" does not exist', "no such database"),
        ('FATAL:  role "u" does not exist', "no such user"),
        ("FATAL:  the database system is starting up", "starting or stopping"),
        ("FATAL:  sorry, too many clients already", "no connection left"),
        ("SSL error: certificate verify failed", "TLS failed"),
        ("connection failed: Connection refused", "no server listens"),
        ("connection timeout expired", "no server answered in time"),
        ("session is read-only", "no host of the URL is a primary"),
        ("FATAL:  das kennen wir nicht", "no connection (OperationalError)"),
    ],
)
def test_a_connect_that_fails_is_told_in_our_words(said, reason):
    error = unreachable("postgresql://h/d", said, "OperationalError")
    assert reason in str(error)
    assert said not in str(error)


@pytest.mark.parametrize(
    "said",
    [
        'FATAL:  password authentication failed for user "u"',
        "fe_sendauth: no password supplied",
        'FATAL:  no pg_hba.conf entry for host "h"',
        'FATAL:  role "u" does not exist',
        'FATAL:  permission denied for database "d"',
        'FATAL:  role "u" is not permitted to log in',
        "SSL error: certificate verify failed",
        'server certificate for "elsewhere" does not match host name "h"',
        "SSL error: tlsv1 alert unknown ca",
    ],
)
def test_who_is_refused_is_denied_and_need_not_try_again(said):
    error = unreachable("postgresql://h/d", said, "OperationalError")
    assert (StoreDenied, False) == (type(error), error.retryable)
    lacking = refusal("postgresql://h/d", "42501", "Strange")
    assert (StoreDenied, False) == (type(lacking), lacking.retryable)


def test_a_host_that_is_named_after_a_certificate_is_only_away():
    said = 'could not translate host name "certificate" to address'
    assert isinstance(unreachable("postgresql://certificate/d", said, "OperationalError"), StoreUnavailable)


@pytest.mark.slow
def test_hosts_that_are_silent_are_given_up_together_in_time():
    with ExitStack() as held:
        silent = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        hosts = ",".join(f"127.0.0.1:{each.getsockname()[1]}" for each in silent)
        started = time.monotonic()
        with pytest.raises(StoreUnavailable, match="no server answered in time"):
            asyncio.run(connect(f"postgresql://u:p@{hosts}/d"))
        assert time.monotonic() - started < 5.5


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("42501", "lacks rights"),
        ("53100", "disk is full"),
        ("53300", "lacks a resource"),
        ("40001", "other transactions"),
        ("99999", "it answered Strange (99999)"),
        (None, "it answered Strange (without a code)"),
    ],
)
def test_an_answer_is_told_by_its_code_or_its_class(code, reason):
    assert reason in str(refusal("postgresql://h/d", code, "Strange"))


@pytest.mark.parametrize(
    ("code", "kind"),
    [("42P01", TablesAbsent), ("53100", StoreUnavailable), ("40001", StoreUnavailable), (None, StoreUnavailable)],
)
def test_tables_are_made_again_only_after_an_answer_that_they_are_absent(code, kind):
    assert kind is type(refusal("postgresql://h/d", code, "Strange"))


@pytest.mark.parametrize("name", ["A", "pg_x", "a;b", 'a"b', "a%0A", "x" * 64, "", "1a"])
def test_a_schema_is_named_by_an_allow_list(name):
    with pytest.raises(InvalidInput, match="schema"):
        administration(f"{URL}?schema={name}")


def test_an_unknown_option_is_refused_with_the_nearest_known():
    with pytest.raises(InvalidInput, match="Did you mean 'sslmode'"):
        administration(f"{URL}?sslmod=require")


def test_the_statements_name_the_schema_and_quote_the_user():
    store = administration(f"{URL}?schema=mine")
    statements = store.upgrade_statements()
    assert ("BEGIN;", "COMMIT;") == (statements[0], statements[-1])
    assert all(each.endswith(";") and not each.endswith(";;") for each in statements)
    assert 'CREATE TABLE "mine".item' in "\n".join(statements)
    assert 'GRANT USAGE ON SCHEMA "mine" TO "a""b; --";' == store.grants('a"b; --')[0]


@pytest.mark.parametrize("user", ["", "a\n", "a\0", "ü" * 40])
def test_a_user_that_no_server_has_is_refused(user):
    with pytest.raises(InvalidInput, match="user"):
        administration(URL).grants(user)


def test_without_its_driver_the_line_that_installs_it_is_said():
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from apportion.stores import administration\n"
        "from apportion.errors import MissingExtra\n"
        f"try: administration({URL!r})\n"
        "except MissingExtra as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'apportion[postgres]'" in said


def test_a_password_of_strange_characters_is_in_no_error_of_a_server_that_is_away():
    with pytest.raises(StoreUnavailable, match="no server listens") as caught:
        asyncio.run(connect(URL))
    assert "cAnAry" not in "".join(traceback.format_exception(caught.value))


class Link:
    """A link whose server answers each statement with incarnation 1 and a time; or loses a reply."""

    def __init__(self, problem=None):
        self.asked, self.problem = [], problem

    async def open(self):
        pass

    async def transact(self, work, **_):
        if self.problem is not None:
            raise self.problem
        return await work(self)

    async def ask(self, statement):
        self.asked.append(statement)
        return [(1, 5_000)]


def links_of(link):
    async def give_back():
        pass

    door = SimpleNamespace(name="the store", schema=None, is_polled=False)
    return SimpleNamespace(
        committing=link, watching=link, lookout=None, leases=None, door=door, ours=True, give_back=give_back
    )


def test_all_statements_of_a_question_about_tasks_read_one_snapshot():
    link = Link()
    assert 5_000 == asyncio.run(PostgresTasks(links_of(link), 1, SystemClock()).query(StoreTime()))
    assert statements.SNAPSHOT == link.asked[0]


def test_tasks_that_are_opened_without_a_reply_are_away(monkeypatch):
    links = links_of(Link(PostgresNoReply("the connection broke")))
    monkeypatch.setattr("apportion.stores.postgres.tasks.store.Links.taken", lambda *_: links)
    with pytest.raises(StoreUnavailable, match="the connection broke"):
        asyncio.run(connected(None, SystemClock()))
