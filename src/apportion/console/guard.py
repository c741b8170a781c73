"""`apportion guard`: a guard for programs that are not Python, such as a shell script that `group run` starts.

    apportion guard check "$URL" || exit 1

Promises: the store keeps the newest token of each checked resource, by the rule of all guards. A token passes if it
is newer than the kept token, or equal and of the same holder. A token that passes is kept at that moment, so no older
token passes from then on. A token that was kept before costs one read.
Refuses: to hold the resource while the caller writes. A check protects only until it ends. If check and write must be
one step, use the guard of a database.
"""

import asyncio
import os
import sys

from apportion.console.print.output import print_json
from apportion.errors import Fenced, InvalidInput
from apportion.groups.admin.found import opened
from apportion.guards import decide, from_text, to_text
from apportion.model.epoch import FencingToken
from apportion.stores.api import Absent, Committed, CoordinationStore, Put, Unchanged

_KEYS = "guard/"
_HINT = "`apportion group run` sets the variable for its commands; elsewhere pass the option."


def check_guard(
    url: str, /, *, resource: str | None = None, token: str | None = None, holder: str | None = None, json: bool = False
) -> int:
    """Tell whether a token is the newest that its resource has seen. Exit code 0: go on, 1: write nothing.

    Parameters
    ----------
    url
        URL of the store that keeps the tokens, such as sqlite:///work.db
    resource
        The resource; $APPORTION_GROUP/$APPORTION_PARTITION
    token
        Its fencing token, incarnation:epoch; $APPORTION_TOKEN
    holder
        The holder of the token; $APPORTION_TOKEN_HOLDER
    json
        Print one JSON object instead.
    """
    asked = _token(resource, token, holder)
    try:
        asyncio.run(_checked(url, asked))
    except Fenced as error:
        if json:
            print_json("guard check", resource=asked.resource, token=str(asked), accepted=False, newer=str(error.newer))
        else:
            print(f"Fenced: {error.problem}", file=sys.stderr)
        return 1
    if json:
        print_json("guard check", resource=asked.resource, token=str(asked), accepted=True, newer=None)
    return 0


def _token(resource: str | None, token: str | None, holder: str | None) -> FencingToken:
    """Return the token from the options, or from the variables that `group run` sets."""
    environ = os.environ
    if resource is None:
        group, partition = environ.get("APPORTION_GROUP"), environ.get("APPORTION_PARTITION")
        resource = f"{group}/{partition}" if group and partition else ""
    holder = environ.get("APPORTION_TOKEN_HOLDER", "") if holder is None else holder
    token = environ.get("APPORTION_TOKEN", "") if token is None else token
    for name, value in (("resource", resource), ("holder", holder)):
        if not value:
            raise InvalidInput(name, value, f"the {name} of a token", _HINT)
    incarnation, _, epoch = token.partition(":")
    if not (_is_number(incarnation) and _is_number(epoch)):
        raise InvalidInput("token", token, "incarnation:epoch, two numbers", _HINT)
    return FencingToken(resource=resource, holder=holder, incarnation=int(incarnation), epoch=int(epoch))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 20


async def _checked(url: str, token: FencingToken) -> None:
    """Keep the token if it may pass; raise `Fenced` if it may not."""
    to_text(token)  # refuses a token that no guard can keep, before any connection
    async with opened(url) as store:
        while not await _is_decided(store, token):
            await asyncio.sleep(0)


async def _is_decided(store: CoordinationStore, token: FencingToken) -> bool:
    """Decide by the kept token; False if another check came between, or if the outcome is unknown."""
    key = f"{_KEYS}{token.resource}/"  # no other resource begins so
    item = next((each for each in (await store.scan(key)).items if each.key == key), None)
    kept = None if item is None else from_text(item.value.decode(errors="replace"))
    if decide(kept, token) == kept:
        return True
    compare = Absent(key=key) if item is None else Unchanged(key=key, revision=item.revision)
    outcome = await store.commit(when=[compare], puts=[Put(key=key, value=to_text(token).encode())])
    return isinstance(outcome, Committed)
