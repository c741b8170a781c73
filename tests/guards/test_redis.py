"""What the guard of Redis sends; what a server makes of it is in `tests/live/test_guards.py`."""

import asyncio

import pytest

from apportion.errors import Fenced, InvalidInput
from apportion.guards import RedisGuard, to_text
from tests.guards.tokens import BAD_TOKENS, token


class Client:
    """Answers as it was told to, and keeps what was sent."""

    def __init__(self, reply):
        self.reply, self.sent = reply, []

    def execute_command(self, name, script, *keys_and_args):
        self.sent.append((name, *keys_and_args))
        return self.reply


@pytest.mark.parametrize(("bad", "field"), BAD_TOKENS)
def test_a_bad_token_is_refused_before_anything_is_sent(bad, field):
    client = Client([1])
    with pytest.raises(InvalidInput, match=f"^{field} is"):
        RedisGuard().set(client, bad, "key", 1)
    with pytest.raises(InvalidInput, match=f"^{field} is"):
        asyncio.run(RedisGuard().set_async(client, bad, "key", 1))
    assert [] == client.sent


def test_check_and_write_are_one_request_with_the_fence_first():
    client = Client([1, b"OK"])
    assert b"OK" == RedisGuard().run(client, token(7), "return 1", ["one", b"two"], [3, "four"])
    fence = "apportion:fence:{mailers/17}"
    assert [("EVAL", 3, fence, "one", b"two", to_text(token(7)), 3, "four")] == client.sent


def test_the_fence_is_where_the_user_says():
    client = Client([1])
    RedisGuard(fence_key=lambda resource: f"f{{{resource[-2:]}}}").set(client, token(7), "{17}", 1)
    assert "f{17}" == client.sent[0][2]


@pytest.mark.parametrize("decode", [str, str.encode])
def test_a_refusal_says_what_is_newer(decode):
    with pytest.raises(Fenced) as caught:
        RedisGuard().set(Client([0, decode(to_text(token(8, "bob")))]), token(7), "key", 1)
    assert ("mailers/17", token(7), token(8), "bob") == (
        caught.value.resource, caught.value.token, caught.value.newer, caught.value.newer.holder,
    )  # fmt: skip


def test_what_is_no_fence_under_its_key_is_not_taken_for_one():
    with pytest.raises(InvalidInput, match="expected the text of a token"):
        RedisGuard().set(Client([0, b"something else"]), token(7), "key", 1)


@pytest.mark.parametrize(("keys", "args", "field"), [("key", [], "keys"), (b"key", [], "keys"), ([], "value", "args")])
def test_one_key_alone_is_no_list_of_keys(keys, args, field):
    client = Client([1])
    with pytest.raises(InvalidInput, match=f"^{field} is .*, expected a list"):
        RedisGuard().run(client, token(7), "return 1", keys, args)
    assert [] == client.sent
