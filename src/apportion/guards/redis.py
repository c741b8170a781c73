"""The guard of Redis: the check and the user's own script run as one, in one round trip; see docs/groups/guards.md.

Promises: a script runs only under a token that the rule accepts, and no other client's command comes between. The
result of the script is returned; a refusal (`Fenced`) has run nothing. An error in the middle of a script leaves its
earlier writes in place, as always in Redis. The fence is not rolled back either: the token stays accepted.
Refuses: to remember more than Redis does. A server that restarts or a replica that is promoted may have lost
acknowledged writes, the fence among them. Then an older token passes until a newer one writes.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from apportion.errors import Fenced, InvalidInput
from apportion.guards.noted import note
from apportion.guards.rule import POSITION_CHARACTERS, from_text, to_text
from apportion.model.epoch import FencingToken

Argument = str | bytes | int | float

_AROUND = f"""
local fence, mine = table.remove(KEYS, 1), table.remove(ARGV, 1)
local kept = redis.call('GET', fence)
if kept then
  local old, new = string.sub(kept, 1, {POSITION_CHARACTERS}), string.sub(mine, 1, {POSITION_CHARACTERS})
  if old > new or (old == new and kept ~= mine) then return {{0, kept}} end
end
redis.call('SET', fence, mine)
local function write()
%s
end
local result = write()
if type(result) == 'table' and result.err then return result end
return {{1, result}}
"""
_SET = "return redis.call('SET', KEYS[1], ARGV[1])"


class RedisCommands(Protocol):
    """The used method of a Redis client: `redis.Redis`, `redis.RedisCluster` and their twins for asyncio."""

    def execute_command(self, *words: Any) -> Any:  # noqa: ANN401 - a library's types
        """Send a command."""


def fence_key(resource: str) -> str:
    """Return the key that keeps a resource's fence, in the slot of the hash tag `{resource}`.

    >>> fence_key("mailers/17")
    'apportion:fence:{mailers/17}'
    """
    return f"apportion:fence:{{{resource}}}"


class RedisGuard:
    """Checks tokens in keys of Redis. On a Cluster the fence must be in the slot of the keys that are written.

    So give the written keys the tag `{resource}`. If they have another tag, pass `fence_key=`: a function from resource
    to key.
    """

    def __init__(self, fence_key: Callable[[str], str] = fence_key) -> None:
        if not callable(fence_key):
            hint = "Leave it out, or pass a function from the resource to the key."
            raise InvalidInput("fence_key", fence_key, "a function of a resource", hint)
        self._fence_key = fence_key

    def run(
        self, client: RedisCommands, token: FencingToken, script: str, keys: Sequence[str | bytes] = (),
        args: Sequence[Argument] = (),
    ) -> Any:  # noqa: ANN401 - the script's result  # fmt: skip
        """Run a script in Lua under `token`, and return its result, or raise `Fenced`."""
        call = self._call(client, token, script, keys, args)
        return _result(client.execute_command(*call), token)

    async def run_async(
        self, client: RedisCommands, token: FencingToken, script: str, keys: Sequence[str | bytes] = (),
        args: Sequence[Argument] = (),
    ) -> Any:  # noqa: ANN401 - the script's result  # fmt: skip
        """Do the same with a client of `redis.asyncio`."""
        call = self._call(client, token, script, keys, args)
        reply = client.execute_command(*call)
        return _result(await reply if isinstance(reply, Awaitable) else reply, token)

    def set(self, client: RedisCommands, token: FencingToken, key: str | bytes, value: Argument) -> None:
        """Write one value under `token`, or raise `Fenced`."""
        self.run(client, token, _SET, [key], [value])

    async def set_async(self, client: RedisCommands, token: FencingToken, key: str | bytes, value: Argument) -> None:
        """Do the same with a client of `redis.asyncio`."""
        await self.run_async(client, token, _SET, [key], [value])

    def _call(
        self,
        client: RedisCommands,
        token: FencingToken,
        script: str,
        keys: Sequence[str | bytes],
        args: Sequence[Argument],
    ) -> tuple[Any, ...]:
        if not callable(getattr(client, "execute_command", None)):
            raise InvalidInput(
                "client", client, "a client of Redis", "Pass redis.Redis(...), or redis.asyncio.Redis(...)."
            )
        if not isinstance(script, str):
            raise InvalidInput("script", script, "a str of Lua", "Write for example: return redis.call('GET', KEYS[1])")
        note(token)
        for field, given in (("keys", keys), ("args", args)):
            if isinstance(given, str | bytes):
                raise InvalidInput(field, given, "a list", "Put a single value into a list.")
        return "EVAL", _AROUND % script, 1 + len(keys), self._fence_key(token.resource), *keys, to_text(token), *args


def _result(reply: object, token: FencingToken) -> object:
    """Return the script's result, or raise its refusal.

    A nil result is absent from the reply, since Lua ends arrays at nil.
    """
    if not isinstance(reply, list):
        if isinstance(reply, Coroutine):
            reply.close()
        expected = "a reply of a client that answers at once"
        raise InvalidInput("reply", reply, expected, "Pass no pipeline; use the _async methods with redis.asyncio.")
    is_accepted, *result = reply
    if not is_accepted:
        text = result[0]
        raise Fenced(token.resource, token, from_text(text.decode() if isinstance(text, bytes) else text))
    return result[0] if result else None
