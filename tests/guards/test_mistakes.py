"""Mistakes with guards and metrics: each error names the value, an expectation and the next step."""

import sqlite3

import pytest

from apportion import metrics
from apportion.guards import RedisGuard, SqlGuard
from apportion.model.epoch import FencingToken
from tests.mistakes import check_refused, mistakes

MISTAKES = """
metrics.GroupMetrics(None) | group is None | Pass the group that open_group opened.
metrics.GroupMetrics("g") | group is 'g' | Pass the group that open_group opened.
metrics.TableMetrics("t", None) | follower is None | Pass the table that follow opened.
metrics.TableMetrics(3, None) | follower is None | Pass the table that follow opened.
metrics.timed(3) | route is 3 | Write timed(ring.route).
metrics.timed(None) | route is None | Write timed(ring.route).
SqlGuard("bad name") | table is 'bad name' | Pick a plain name. The guard quotes it, so its
SqlGuard("") | table is '' | Pick a plain name. The guard quotes it, so its
SqlGuard(3) | table is 3 | Pick a plain name. The guard quotes it, so its
SqlGuard(None) | table is None | Pick a plain name. The guard quotes it, so its
SqlGuard().create(None) | connection is 'builtins.NoneType' | Pick one of them.
SqlGuard().create("x.db") | connection is 'builtins.str' | Pick one of them.
SqlGuard().check(None, token) | connection is 'builtins.NoneType' | Pick one of them.
SqlGuard().check(connection, None) | token is None | Pass the token that group.hold(partition)
SqlGuard().check(connection, 3) | token is 3 | Pass the token that group.hold(partition)
SqlGuard().check(connection, "t") | token is 't' | Pass the token that group.hold(partition)
SqlGuard().check(token, connection) | token is a Connection | Pass the token that group.hold(partition)
SqlGuard().check_async(connection, token) | connection is 'sqlite3.Connection' | Pick one of them.
SqlGuard().check_async(None, token) | connection is 'builtins.NoneType' | Pick one of them.
SqlGuard().check_async(connection, None) | token is None | Pass the token that group.hold(partition)
SqlGuard(table="a; DROP") | table is 'a; DROP' | Pick a plain name. The guard quotes it, so its
RedisGuard().set(None, token, "k", "v") | client is None | Pass redis.Redis(...), or
RedisGuard().set("redis://h", token, "k", "v") | client is 'redis://h' | Pass redis.Redis(...), or
RedisGuard().set(AnswersOne(), None, "k", "v") | token is None | Pass the token that group.hold(partition)
RedisGuard().set(AnswersOne(), 3, "k", "v") | token is 3 | Pass the token that group.hold(partition)
RedisGuard().set(AnswersOne(), token, None, "v") | reply is 1 | Pass no pipeline; use the _async methods
RedisGuard().run(AnswersOne(), token, None) | script is None | Write for example: return
RedisGuard().run(AnswersOne(), token, 3) | script is 3 | Write for example: return
RedisGuard().run(AnswersOne(), token, "return 1", keys="k") | keys is 'k' | Put a single value into a list.
RedisGuard().run(AnswersOne(), token, "return 1", args="k") | args is 'k' | Put a single value into a list.
RedisGuard("k") | fence_key is 'k' | Leave it out, or pass a function from the
RedisGuard(3) | fence_key is 3 | Leave it out, or pass a function from the
RedisGuard(fence_key=None) | fence_key is None | Leave it out, or pass a function from the
RedisGuard().set_async(None, token, "k", "v") | client is None | Pass redis.Redis(...), or
guards.decide(None, None) | token is None | Pass the token that group.hold(partition)
guards.decide(3, token) | token is 3 | Pass the token that group.hold(partition)
guards.decide(None, 3) | token is 3 | Pass the token that group.hold(partition)
guards.from_text("x") | token is 'x' | Send the text of guards.to_text(token),
guards.from_text(None) | token is None | Send the text of guards.to_text(token),
guards.from_text("") | token is '' | Send the text of guards.to_text(token),
guards.from_text(b"x") | token is b'x' | Send the text of guards.to_text(token),
guards.from_text(3) | token is 3 | Send the text of guards.to_text(token),
guards.to_text(None) | token is None | Pass the token that group.hold(partition)
guards.to_text("x") | token is 'x' | Pass the token that group.hold(partition)
guards.note(None) | token is None | Pass the token that group.hold(partition)
guards.note(3) | token is 3 | Pass the token that group.hold(partition)
"""


class AnswersOne:
    """A client that is no client of Redis, as a mock is."""

    def execute_command(self, *words):
        return 1


TOKEN = FencingToken(resource="r", holder="h", incarnation=1, epoch=1)
NAMES = {"SqlGuard": SqlGuard, "RedisGuard": RedisGuard, "AnswersOne": AnswersOne, "metrics": metrics, "token": TOKEN}


@pytest.fixture
def connection():
    connection = sqlite3.connect(":memory:")
    yield connection
    connection.close()


@pytest.mark.parametrize(("call", "problem", "hint"), mistakes(MISTAKES))
def test_a_mistake_names_the_value_an_expectation_and_the_next_step(call, problem, hint, connection):
    check_refused(call, problem, hint, connection=connection, **NAMES)


@pytest.mark.parametrize("table", ["apportion_fences", "main.fences"])
def test_a_check_without_its_table_is_the_error_of_the_driver_with_the_next_step(connection, table):
    with pytest.raises(sqlite3.OperationalError, match=f"no such table: {table}") as caught:
        SqlGuard(table).check(connection, TOKEN)
    assert ["Nothing was written. Make the table once: call create(connection), or run ddl."] == caught.value.__notes__
    with pytest.raises(sqlite3.OperationalError, match="no such table: other") as caught:
        connection.execute("SELECT * FROM other")
    assert not hasattr(caught.value, "__notes__")
